package parsers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func longTeardown(n int, name string) string {
	uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)
	return `E0331 15:47:45.892216    3416 nestedpendingoperations.go:301] Operation for "{volumeName:v podName:` + uid + ` nodeName:}" failed. ` +
		`No retries permitted until 2024-03-31. Error: UnmountVolume.TearDown failed for volume "v" (UniqueName: "` + name + `") pod "` + uid +
		`" (UID: "` + uid + `") : remove /var/lib/kubelet/pods/` + uid + `/volumes/kubernetes.io~nfs/v: directory not empty`
}

// TestSightingIsSmall checks that a sighting, which is kept beyond the next look, does not keep its line in memory,
// nor a name of the length of a line.
func TestSightingIsSmall(t *testing.T) {
	const lines, long = 1500, 60 << 10
	kept := make([]Sighting, 0, lines)
	for n := range lines {
		s, ok := ParseLine(Line{Text: []byte(longTeardown(n, strings.Repeat("x", long)))})
		if !ok || s.Leaf != "volumes/kubernetes.io~nfs/v" {
			t.Fatalf("not parsed: %+v", s)
		}
		kept = append(kept, s)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > lines*long/4 {
		t.Errorf("%d sightings keep %d bytes", len(kept), m.HeapAlloc)
	}
	other, _ := ParseLine(Line{Text: []byte(longTeardown(1, strings.Repeat("x", long)+"y"))})
	if s := kept[1]; len(s.Volume) > maxName || s.Volume == other.Volume {
		t.Errorf("the volume is %d bytes: %.80q, and another %.80q", len(s.Volume), s.Volume, other.Volume)
	}
	path := "/var/lib/" + strings.Repeat("y", long) + "/pods/00000001-0000-4000-8000-000000000000/volumes/v"
	s, ok := ParseLine(Line{Text: []byte(`E0331 15:47:45.892216    3416 kubelet_volumes.go:179] ` +
		`orphaned pod "00000001-0000-4000-8000-000000000000" found, but failed to rmdir() volume at path ` + path + `: directory not empty`)})
	if !ok || len(s.Path) > maxPath || !strings.HasPrefix(s.Path, "/var/lib/yyy") {
		t.Errorf("%t: a path of %d bytes", ok, len(s.Path))
	}
	leaf := strings.Replace(longTeardown(1, "v"), "kubernetes.io~nfs/v:", "kubernetes.io~nfs/"+strings.Repeat("z", 2000)+":", 1)
	if s, ok := ParseLine(Line{Text: []byte(leaf)}); !ok || s.Leaf != "" {
		t.Errorf("%t: a leaf of %d bytes", ok, len(s.Leaf))
	}
}
