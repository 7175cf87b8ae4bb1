package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeLargeVolumes: what fills disks goes as anything else does. Each number is above what
// is counted of one tree or read of one directory.
func TestWholeLargeVolumes(t *testing.T) {
	n := newWholeNode(t)
	files := 10_100
	if os.Getenv("ORPHAN_REAPER_LONG") != "" {
		files = 1_000_000
	}
	fill := func(dir string, files int) {
		t.Helper()
		for i := range files {
			sub := n.path(fmt.Sprintf("%s/%03d", dir, i/2000))
			if i%2000 == 0 {
				n.mkdir(fmt.Sprintf("%s/%03d", dir, i/2000))
			}
			testkit.Must(t, os.WriteFile(fmt.Sprintf("%s/%d", sub, i), nil, 0o600))
		}
	}
	pod := "root/pods/" + wholeUID(1)
	fill(pod+"/volumes/kubernetes.io~empty-dir/cache", files)
	fill(pod+"/volumes/kubernetes.io~nfs/share", files)
	n.mkdir(pod + "/containers/app")
	for i := range 10_050 { // one for each restart
		testkit.Must(t, os.WriteFile(n.path(fmt.Sprintf("%s/containers/app/%08x", pod, i)), nil, 0o600))
	}
	left := func(below string) int {
		t.Helper()
		found, err := filepath.Glob(n.path("root/orphan-reaper/" + wholeUID(1) + ".*/" + below))
		testkit.Must(t, err)
		return len(found)
	}
	if out, code := n.run("sweep", "-o", "json"); n.outcomes(out)[wholeUID(1)] != "quarantined" {
		t.Errorf("exit %d: %s", code, out)
	}
	if left("*") != 1 || left("volumes/*/*") != 2 {
		t.Errorf("after the strip there are %d directories and %d volumes", left("*"), left("volumes/*/*"))
	}
	if out, code := n.run("sweep", "-o", "json", "--retention", "0s"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if left("volumes/*/cache") != 0 || left("volumes/*/share/*/*") != files {
		t.Errorf("after the retention: %d of %d files of data", left("volumes/*/share/*/*"), files)
	}
}
