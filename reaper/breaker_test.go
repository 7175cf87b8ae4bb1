package reaper

import (
	"errors"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// untilCut does something and reports whether it was cut off.
func untilCut(do func()) (cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCut) {
				panic(r)
			}
			cut = true
		}
	}()
	do()
	return false
}

// remade is a node on which a pod goes back for another reason than a sign of life, a mount that came
// late, and meets a directory that its kubelet made meanwhile.
func remade(used policy.Truth) (*fakeNode, policy.Rules) {
	n := newFakeNode()
	n.add(1, nil)
	n.scans[uidOf(1)] = policy.Fact{Truth: policy.Yes, Detail: "mounted at the last moment"}
	n.remakes = map[parsers.PodUID]policy.Truth{uidOf(1): used}
	rules := testRules
	rules.Hold, rules.Confirm = 0, 0
	return n, rules
}

// TestBreakerCutOff kills the process before every single step of a pass in which a pod that goes back
// meets a directory that was made again. Whatever it was cut at, after the next start the breaker is
// open: that the pod lived is known from the disk alone by then.
func TestBreakerCutOff(t *testing.T) {
	for _, used := range []policy.Truth{policy.No, policy.Yes} {
		exchanged := 0
		for cut, cutOff := 1, true; cutOff; cut++ {
			n, rules := remade(used)
			n.cutAt = cut
			cutOff = untilCut(func() { mustPass(t, n.reaper(t, rules), n.claim(1)) })
			met := n.met
			n.cutAt, n.scans, n.remakes = 0, nil, nil
			mustPass(t, n.reaper(t, rules))
			if met && !n.BreakerOpen() {
				t.Errorf("used %s: cut at %d, and the breaker is closed: %v", used, cut, n.kinds(uidOf(1)))
			}
			if met {
				exchanged++
			}
		}
		if exchanged < 3 {
			t.Errorf("used %s: it was cut after the two had met only %d times", used, exchanged)
		}
	}
}
