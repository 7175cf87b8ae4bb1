package reaper

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestQuarantineNotMounted checks that a pass ends with an error if the quarantine's disk is not mounted or another
// directory has its place. Otherwise every entry would be recorded as gone and its data forgotten.
func TestQuarantineNotMounted(t *testing.T) {
	root, below := policy.DirID{Dev: 8, Ino: 2, Btime: 100}, policy.DirID{Dev: 1, Ino: 4711, Btime: 50}
	made, other := policy.DirID{Dev: 8, Ino: 77, Btime: 200}, policy.DirID{Dev: 8, Ino: 91, Btime: 300}
	disk, empty := quarantineHome{root, made}, map[string]*fakePod{}
	for _, c := range []struct {
		name    string
		change  func(n *fakeNode)
		refused bool
		gone    bool // recorded as gone without the guard
	}{
		{"as it was", func(*fakeNode) {}, false, false},
		{"another boot gives another device number", func(n *fakeNode) { n.home.Parent.Dev, n.home.Quarantine.Dev = 253, 253 }, false, false},
		{"not mounted", func(n *fakeNode) { n.home, n.quarantine = quarantineHome{Parent: below}, empty }, true, false},
		{"the mount point is missing", func(n *fakeNode) { n.homeErr, n.quarantine = fs.ErrNotExist, empty }, true, false},
		{"another directory was made in its place", func(n *fakeNode) { n.home.Quarantine, n.quarantine = other, empty }, true, false},
		{"moved away", func(n *fakeNode) { n.home.Quarantine, n.quarantine = policy.DirID{}, empty }, true, false},
		{"moved away, and saved before it was made", func(n *fakeNode) {
			n.home.Quarantine, n.quarantine = other, empty
			n.files["home"] = quarantineHome{Parent: root}
		}, true, false},
		{"as it was, and saved before it was made", func(n *fakeNode) { n.files["home"] = quarantineHome{Parent: root} }, false, false},
		{"the root directory was renamed", func(n *fakeNode) { n.home.Parent = below }, false, false},
		{"copied to another disk", func(n *fakeNode) { n.home = quarantineHome{below, other} }, false, false},
		{"emptied by somebody", func(n *fakeNode) { n.quarantine = empty }, false, true},
		{"no home", func(n *fakeNode) {
			delete(n.files, "home")
			n.home, n.quarantine = quarantineHome{below, other}, empty
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newFakeNode()
			n.home = disk
			n.add(1, nil)
			mustPass(t, n.reaper(t, testRules), n.claim(1))
			n.pass(testRules.Hold)
			mustPass(t, n.reaper(t, testRules))
			if len(n.quarantine) != 1 || n.files["home"] != disk {
				t.Fatalf("parked: %v, home %v", n.quarantine, n.files["home"])
			}
			lies := n.quarantine
			c.change(n)
			n.pass(testRules.Confirm / 2)
			r, before := n.reaper(t, testRules), len(n.records)
			_, err := r.Pass(t.Context(), Options{})
			if errors.Is(err, errOtherQuarantine) != c.refused || !c.refused && err != nil {
				t.Fatalf("the pass returned %v", err)
			}
			if _, err := r.Restore(t.Context(), uidOf(2), n.shown(2)); errors.Is(err, errOtherQuarantine) != c.refused {
				t.Errorf("restore returned %v", err)
			}
			if (len(n.records) != before) && c.refused {
				t.Errorf("the ledger has new records: %v", n.records[before:])
			}
			if c.gone {
				n.pass(testRules.Confirm)
				mustPass(t, r)
				if left := policy.Listed(n.Entries()); len(left) != 0 || len(lies) != 1 {
					t.Errorf("entries not recorded as gone: %v", left)
				}
				return
			}
			if c.refused {
				n.home, n.homeErr, n.quarantine = disk, nil, lies
			}
			n.pass(time.Hour)
			mustPass(t, r)
			n.pass(testRules.Confirm)
			mustPass(t, r)
			kinds := n.kinds(uidOf(1))
			if last := kinds[len(kinds)-1]; last != policy.KindRemoved {
				t.Errorf("the last records are %v", kinds)
			}
			if len(n.quarantine) != 0 {
				t.Errorf("in quarantine: %v", n.quarantine)
			}
		})
	}
}

// TestHomeOfFirstMove checks that the first move makes the quarantine and saves its identity, and that an empty
// quarantine that was removed is made again.
func TestHomeOfFirstMove(t *testing.T) {
	n := newFakeNode()
	n.home = quarantineHome{Parent: policy.DirID{Ino: 2}}
	for i := range 2 {
		made := policy.DirID{Ino: uint64(70 + i)}
		n.add(i, nil)
		r := n.reaper(t, testRules)
		mustPass(t, r, n.claim(i))
		n.pass(testRules.Hold)
		n.makes = made
		mustPass(t, r)
		if len(n.quarantine) != 1 || n.files["home"] != (quarantineHome{policy.DirID{Ino: 2}, made}) {
			t.Fatalf("parked: %v, home %v", n.quarantine, n.files["home"])
		}
		n.pass(testRules.Confirm)
		mustPass(t, r)
		n.home.Quarantine = policy.DirID{}
	}
}

// TestHomeMovedDuringPass checks that nothing is moved into a quarantine that has itself moved since the pass began.
func TestHomeMovedDuringPass(t *testing.T) {
	n := newFakeNode()
	n.home = quarantineHome{policy.DirID{Ino: 2}, policy.DirID{Ino: 70}}
	n.add(1, nil)
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	n.pass(testRules.Hold)
	mustPass(t, r)
	home := n.files["home"]
	n.home.Quarantine = policy.DirID{Ino: 71}
	err := r.rememberQuarantine(policy.Batch{Actions: []policy.Action{{Kind: policy.Park, UID: uidOf(2)}}})
	if !errors.Is(err, errOtherQuarantine) || n.files["home"] != home {
		t.Errorf("the pass returned %v, home %v", err, n.files["home"])
	}
}

// TestHomeNotSaved checks that nothing is moved while it cannot be saved where the quarantine is: after a restart beside another one,
// each entry would count as gone.
func TestHomeNotSaved(t *testing.T) {
	n := newFakeNode()
	n.home = quarantineHome{Parent: policy.DirID{Ino: 2}}
	n.add(1, nil)
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	n.pass(testRules.Hold)
	n.saveErr = unix.ENOSPC
	if mustPass(t, r); len(n.quarantine) != 0 || len(n.Entries()) != 0 {
		t.Errorf("moved to a quarantine that is not saved: %v, %v", n.quarantine, n.Entries())
	}
	n.saveErr = nil
	if mustPass(t, r); len(n.quarantine) != 1 {
		t.Error("not moved once it was saved")
	}
}
