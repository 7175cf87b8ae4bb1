package reported

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestClearNoLeaf checks that an error of any other kind on any volume of the pod prevents the clearing.
func TestClearNoLeaf(t *testing.T) {
	teardown := func(volume, leaf string) parsers.Sighting {
		return parsers.Sighting{UID: testkit.PodUID, Report: parsers.ReportTeardown, Path: "/p", Volume: volume, Leaf: leaf, Whole: true}
	}
	other := "volumes/kubernetes.io~nfs/other"
	for name, tc := range map[string]struct {
		said []parsers.Sighting
		ago  time.Duration // age of all lines but the last
		want []string
	}{
		"not empty":                   {[]parsers.Sighting{teardown("v", testkit.Leaf)}, 0, []string{testkit.Leaf}},
		"two volumes":                 {[]parsers.Sighting{teardown("v", testkit.Leaf), teardown("w", other)}, 0, []string{other, testkit.Leaf}},
		"another error":               {[]parsers.Sighting{teardown("v", "")}, 0, nil},
		"another error since":         {[]parsers.Sighting{teardown("v", testkit.Leaf), teardown("v", "")}, 0, nil},
		"another error before":        {[]parsers.Sighting{teardown("v", ""), teardown("v", testkit.Leaf)}, 0, []string{testkit.Leaf}},
		"another volume's error":      {[]parsers.Sighting{teardown("w", ""), teardown("v", testkit.Leaf)}, 0, nil},
		"another volume's, not since": {[]parsers.Sighting{teardown("w", ""), teardown("v", testkit.Leaf)}, 10 * time.Minute, []string{testkit.Leaf}},
		"no leaf":                     {[]parsers.Sighting{teardown("v", "volume-subpaths/v/c/0")}, 0, nil},
	} {
		s := testkit.DeadPod()
		var h Log
		h.Add(nil, s.Node, s.Now)
		for i, said := range tc.said {
			said.PID = s.Node.KubeletID.PID
			at := s.Ago(tc.ago)
			if i == len(tc.said)-1 {
				at = s.Now
			}
			h.Add([]Claim{{Sighting: said, At: at}}, s.Node, s.Now)
		}
		h.Complete(&s.Pod, s.Node, s.Now)
		var got []string
		for _, leaf := range s.Pod.Leaves {
			got = append(got, leaf.Leaf)
		}
		if !slices.Equal(got, tc.want) || s.Pod.Facts[policy.FactTeardown].Truth != policy.Yes {
			t.Errorf("%s: %q, held %s; want %q", name, got, s.Pod.Facts[policy.FactTeardown].Truth, tc.want)
		}
	}
}

// TestClearBounded checks that a pod with more volumes than the log holds is not cleared.
func TestClearBounded(t *testing.T) {
	s := testkit.DeadPod()
	var held Teardown
	for i := range mostVolumes + 10 {
		held.add(parsers.Sighting{Volume: fmt.Sprint(i), Leaf: testkit.Leaf}, s.Now)
	}
	if len(held.Volumes) > mostVolumes+1 || held.leaves(s.Now) != nil {
		t.Errorf("%d volumes, leaves %v", len(held.Volumes), held.leaves(s.Now))
	}
}
