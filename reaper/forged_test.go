package reaper

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestForgedName: a line about a pod that was never on this node lets no other go, and is not
// remembered. One about a pod that is here does, also where that went since the last look.
func TestForgedName(t *testing.T) {
	for name, c := range map[string]struct {
		named int
		gone  bool // since the look before
		want  bool
	}{"never here": {9, false, false}, "here": {2, false, true}, "here at the look before": {2, true, true}} {
		n := newFakeNode()
		rules := noHold()
		n.add(1, nil)
		n.add(2, map[policy.FactName]policy.Truth{policy.FactStaged: policy.Yes})
		r := n.reaper(t, rules)
		mustPass(t, r)
		if c.gone {
			delete(n.pods, uidOf(2))
		}
		mustPass(t, r, n.claim(c.named))
		if went := n.pods[uidOf(1)] == nil; went != c.want {
			t.Errorf("%s: the other pod went: %t", name, went)
		}
		if len(r.memory.Log.Named) > 0 != c.want {
			t.Errorf("%s: remembered %v", name, r.memory.Log.Named)
		}
	}
}
