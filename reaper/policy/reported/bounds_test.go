package reported

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHeardBounds checks that the log's size in memory and on disk is bounded, however many lines and long names
// arrive, and that each pod in them counts as held.
func TestHeardBounds(t *testing.T) {
	s := testkit.DeadPod()
	var h Log
	const pods, volumes = 1000, 2 * mostVolumes
	uid := func(n int) parsers.PodUID { return parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)) }
	for n := range pods {
		var claims []Claim
		for v := range volumes {
			claims = append(claims, Claim{At: s.Now, Sighting: parsers.Sighting{
				UID: uid(n), Report: parsers.ReportTeardown, PID: s.Node.KubeletID.PID, Whole: true,
				Path: strings.Repeat("p", 1024), Volume: fmt.Sprintf("%0256d", v), Leaf: fmt.Sprintf("volumes/kubernetes.io~nfs/%0250d", v),
			}})
		}
		h.Add(claims, s.Node, s.Now)
	}
	if size := h.bytes; size > mostTeardownBytes+pods*256 {
		t.Errorf("%d bytes in memory", size)
	}
	text, err := json.Marshal(h)
	if err != nil || len(text) > 16<<20 {
		t.Errorf("%d bytes on disk, %v", len(text), err)
	}
	for n := range pods {
		e := policy.Evidence{UID: uid(n)}
		h.Complete(&e, s.Node, s.Now)
		if e.Facts[policy.FactTeardown].Truth != policy.Yes {
			t.Fatalf("pod %d is not known to be held", n)
		}
	}
}
