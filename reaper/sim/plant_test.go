package sim

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// plant is a defect that is put between the loop and the node: the loop sees what it would have concluded with that
// defect. The zero value is none.
type plant struct {
	look  func(n *node, look policy.Look, parked []policy.EntryState) // changes the evidence of a look
	still func(n *node, before, now []policy.Evidence)                // changes the answers to the last question
	take  func(n *node, a policy.Action) bool                         // refuses a removal
	scan  func(n *node, wanted map[parsers.PodUID]bool)               // reads mounts for these pods only
	sweep func(c cniRooms)                                            // begins a sweep over the files of CNI
}

// plants are the defects that the third trial found, and some that are as easily made.
var plants = map[string]func() plant{
	// Between the look and the rename nothing was asked again, and right after it the mounts alone. A directory that was made again counted as
	// used where a sandbox was younger than the parking, though the volumes were in the elder.
	"K1": func() plant {
		return plant{
			still: func(n *node, before, now []policy.Evidence) {
				for i := range now {
					mounted := now[i].Facts[policy.FactMounted]
					if now[i] = before[i]; n.dirs[now[i].UID] == nil || n.dirs[now[i].UID].id != now[i].ID {
						now[i].Facts[policy.FactMounted] = mounted
					}
				}
			},
			look: func(_ *node, look policy.Look, parked []policy.EntryState) {
				for i := range look.Parked {
					e := &look.Parked[i]
					for _, s := range parked {
						if s.Entry == e.Entry && !e.Made.Last.IsZero() && e.Made.Last.After(s.Parked.At.Wall) && e.Facts[policy.FactRemade].Truth == policy.Yes {
							e.Facts[policy.FactUsed].Truth, e.Elder.Truth = policy.Yes, policy.No
						}
					}
				}
			},
		}
	},
	// Nothing showed that a pod is a static one.
	"K3": func() plant {
		forget := func(all []policy.Evidence) {
			for i := range all {
				all[i].Static = false
			}
		}
		return plant{
			look: func(_ *node, look policy.Look, _ []policy.EntryState) {
				forget(look.Pods)
				forget(look.RuntimeOnly)
				forget(look.Parked)
				forget(look.Resting)
			},
			still: func(_ *node, _, now []policy.Evidence) { forget(now) },
		}
	},
	// What could not be read counted as nothing that speaks for the pod.
	"doubt": func() plant {
		dismiss := func(all []policy.Evidence) {
			for i := range all {
				for _, fact := range [...]policy.FactName{policy.FactCgroup, policy.FactMounted} {
					if f := &all[i].Facts[fact]; f.Truth == policy.Unknown {
						f.Truth = policy.No
					}
				}
			}
		}
		return plant{
			look: func(_ *node, look policy.Look, _ []policy.EntryState) {
				dismiss(look.Pods)
				dismiss(look.Parked)
				dismiss(look.Resting)
			},
			still: func(_ *node, _, now []policy.Evidence) { dismiss(now) },
		}
	},
	// A directory that had just changed was as good as an old one.
	"young": func() plant {
		return plant{look: func(_ *node, look policy.Look, _ []policy.EntryState) {
			for i := range look.Pods {
				look.Pods[i].Changed = epoch.Add(-24 * time.Hour)
			}
		}}
	},
	// Without its manifest, for which a full disk had no room, no entry was removed.
	"R1": func() plant {
		return plant{take: func(n *node, a policy.Action) bool { return !n.manifests[a.Entry] }}
	},
	// A sweep over the files of CNI that a crash had cut short was finished although the gate was shut.
	"R2": func() plant {
		return plant{sweep: func(c cniRooms) {
			for name, e := range c.program.store.Entries() {
				if e.Phase == policy.PhaseCNIRemoving {
					all := policy.Standing{Node: policy.Node{MayEnforce: policy.Fact{Truth: policy.Yes}, Agrees: policy.Fact{Truth: policy.Yes}}}
					_ = c.ReadArchive(name, func(f cni.File) error {
						c.RemoveCNI(context.Background(), all.Gate(), []cni.File{f})
						return nil
					})
				}
			}
		}}
	},
	// The mounts that a scan for some pods found in none of them were never searched again.
	"D1": func() plant {
		return plant{scan: func(n *node, wanted map[parsers.PodUID]bool) {
			for _, all := range []map[parsers.PodUID]*dir{n.dirs} {
				for _, uid := range slices.Sorted(maps.Keys(all)) {
					for i := range all[uid].mounts {
						m := &all[uid].mounts[i]
						m.forgotten = m.forgotten || !wanted[uid]
					}
				}
			}
		}}
	},
}

// rare plants fail one run of a thousand or fewer, so only the long form searches for them.
var rare = []string{"R2"}

// TestPlanted puts each defect back, and has it found from seeds that were not chosen.
func TestPlanted(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(plants)) {
		if slices.Contains(rare, name) && !testkit.Long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, n := found(t, name)
			t.Log(n.oracle.failed)
		})
	}
}

// found searches for a run that fails by a planted defect, and not without it. SEED is the first.
func found(t *testing.T, name string) (scenario, *node) {
	t.Helper()
	seeds := uint64(1000)
	if testkit.Long() {
		seeds = 20_000 // a minute of a core
	}
	first := uint64(number("SEED", 1))
	for seed := first; seed < first+seeds; seed++ {
		s := newScenario(seed, 10)
		if n := simulate(s, plants[name](), false); n.oracle.failed != "" && simulate(s, plant{}, false).oracle.failed == "" {
			t.Logf("seed %d, after %d others", seed, seed-first)
			return s, n
		}
	}
	t.Fatal("not found")
	return scenario{}, nil
}
