package reaper

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestNotHome: a disk that is not mounted yet is no empty quarantine.
func TestNotHome(t *testing.T) {
	disk, below := policy.DirID{Dev: 8, Ino: 2, Btime: 100}, policy.DirID{Dev: 1, Ino: 4711, Btime: 50}
	for _, c := range []struct {
		name    string
		change  func(n *fakeNode)
		refused bool
		gone    bool // without the guard: written off
	}{
		{"as it was", func(*fakeNode) {}, false, false},
		{"another boot gives another device number", func(n *fakeNode) { n.home.Dev = 253 }, false, false},
		{"not mounted", func(n *fakeNode) { n.home, n.quarantine = below, map[string]*fakePod{} }, true, false},
		{"the mount point is missing", func(n *fakeNode) { n.homeErr, n.quarantine = fs.ErrNotExist, map[string]*fakePod{} }, true, false},
		{"copied to another disk", func(n *fakeNode) { n.home = below }, false, false},
		{"emptied by somebody", func(n *fakeNode) { n.quarantine = map[string]*fakePod{} }, false, true},
		{"an older program's state", func(n *fakeNode) {
			delete(n.files, "home")
			n.home, n.quarantine = below, map[string]*fakePod{}
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newFakeNode()
			n.home = disk
			n.add(1, nil)
			mustPass(t, n.reaper(t, testRules), n.claim(1))
			n.pass(testRules.Hold)
			mustPass(t, n.reaper(t, testRules))
			if len(n.quarantine) != 1 || n.files["home"] != (quarantineParent{disk}) {
				t.Fatalf("parked: %v, home %v", n.quarantine, n.files["home"])
			}
			lies := n.quarantine
			c.change(n)
			n.pass(testRules.Confirm / 2)
			r, before := n.reaper(t, testRules), len(n.records)
			_, err := r.Pass(t.Context(), Options{})
			if errors.Is(err, errOtherQuarantine) != c.refused || !c.refused && err != nil {
				t.Fatalf("error %v", err)
			}
			if _, err := r.Restore(t.Context(), uidOf(2), n.shown(2)); errors.Is(err, errOtherQuarantine) != c.refused {
				t.Errorf("to restore: %v", err)
			}
			if (len(n.records) != before) && c.refused {
				t.Errorf("the ledger was written: %v", n.records[before:])
			}
			if c.gone {
				n.pass(testRules.Confirm)
				mustPass(t, r)
				if left := policy.Listed(n.Entries()); len(left) != 0 || len(lies) != 1 {
					t.Errorf("not written off: %v", left)
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
				t.Errorf("it ended as %v", kinds)
			}
			if len(n.quarantine) != 0 {
				t.Errorf("in quarantine: %v", n.quarantine)
			}
		})
	}
}
