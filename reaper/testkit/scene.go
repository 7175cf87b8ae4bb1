package testkit

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The pod of a Scene, and the volume directory that tests use.
const (
	PodUID = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	Leaf   = "volumes/kubernetes.io~nfs/vol"
)

// Scene is all that policy.Judge weighs of one pod.
type Scene struct {
	Pod   policy.Evidence
	Node  policy.Node
	Hold  policy.Hold
	Rules policy.Rules
	Now   policy.Instant
}

// DeadPod returns a pod that is dead by every fact, after its hold: each test changes one thing. Package policy has its own,
// since it cannot import this package.
func DeadPod() *Scene {
	yes := policy.Fact{Truth: policy.Yes}
	now := policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: 100 * time.Hour}
	s := &Scene{
		Now:   now,
		Rules: policy.Rules{Hold: 5 * time.Minute, Confirm: 2 * time.Minute, Retention: 24 * time.Hour},
		Node: policy.Node{
			Kubelet: yes, KubeletID: policy.KubeletID{PID: 812, Start: time.Hour},
			RuntimeLists: yes, MayEnforce: yes, Agrees: yes, FreeBytes: 0.5, FreeInodes: 0.5,
		},
		Pod: policy.Evidence{Name: string(PodUID), UID: PodUID, ID: policy.DirID{Dev: 1, Ino: 2, Btime: 3}, Changed: now.Wall.Add(-time.Hour)},
	}
	for n := range policy.NumFacts {
		s.Pod.Facts.Set(n, policy.No, "test", "")
	}
	for _, n := range []policy.FactName{policy.FactDirectory, policy.FactContent, policy.FactNamed} {
		s.Pod.Facts.Set(n, policy.Yes, "test", "")
	}
	s.Hold = policy.Hold{Since: s.Ago(6 * time.Minute), ID: s.Pod.ID}
	return s
}

// Ago returns the instant d before now, by both clocks.
func (s *Scene) Ago(d time.Duration) policy.Instant {
	return policy.Instant{Wall: s.Now.Wall.Add(-d), BootID: s.Now.BootID, Boot: s.Now.Boot - d}
}
