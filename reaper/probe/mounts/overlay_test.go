package mounts

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestOverlaysElsewhere: an overlay whose layers lie in no pod is remembered, and not looked for again.
func TestOverlaysElsewhere(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"/l1", "/up", "/work", "/over"} {
		testkit.Must(t, os.Mkdir(dir+name, 0o755))
	}
	testkit.Mount(t, "o", dir+"/over", "overlay", 0, "lowerdir="+dir+"/l1,upperdir="+dir+"/up,workdir="+dir+"/work")
	r, known := reader(t, "/proc"), 0
	m := r.Read(t.Context(), nil, nil)
	r.outside.Range(func(any, any) bool { known++; return true })
	if len(m.Pods) != 0 || known == 0 {
		t.Errorf("%d overlays are known to be elsewhere", known)
	}
}
