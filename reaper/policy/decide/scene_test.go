package decide

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

var update = flag.Bool("update", os.Getenv("UPDATE_GOLDEN") != "", "rewrite the golden files")

const (
	testUID  = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	testLeaf = "volumes/kubernetes.io~nfs/vol"
)

// scene is a node and a pod on it that is dead in every respect.
type scene struct {
	ev    policy.Evidence
	node  policy.Node
	hold  policy.Hold
	rules policy.Rules
	now   policy.Instant
}

func deadScene() *scene {
	yes := policy.Fact{Truth: policy.Yes}
	now := policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: 100 * time.Hour}
	s := &scene{
		now:   now,
		rules: policy.Rules{Hold: 5 * time.Minute, Settle: 5 * time.Minute, Confirm: 2 * time.Minute, Retention: 24 * time.Hour},
		node: policy.Node{
			Kubelet: yes, KubeletID: policy.KubeletID{PID: 812, Start: time.Hour},
			RuntimeLists: yes, Network: yes, MayEnforce: yes, Agrees: yes, FreeBytes: 0.5, FreeInodes: 0.5,
		},
		ev: policy.Evidence{Name: string(testUID), UID: testUID, ID: policy.DirID{Dev: 1, Ino: 2, Btime: 3}, Changed: now.Wall.Add(-time.Hour)},
	}
	for n := range policy.NumFacts {
		s.ev.Facts.Set(n, policy.No, "test", "")
	}
	for _, n := range []policy.FactName{policy.FactDirectory, policy.FactContent, policy.FactNamed, policy.FactAnyNamed} {
		s.ev.Facts.Set(n, policy.Yes, "test", "")
	}
	s.hold = policy.Hold{Since: s.now, ID: s.ev.ID}
	s.hold.Since.Wall, s.hold.Since.Boot = now.Wall.Add(-6*time.Minute), now.Boot-6*time.Minute
	return s
}

// TestDeadScene: what the tests of this package change nothing of goes.
func TestDeadScene(t *testing.T) {
	s := deadScene()
	if v := policy.Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != policy.Reap {
		t.Errorf("%s %v", v.Decision, v.Why)
	}
}
