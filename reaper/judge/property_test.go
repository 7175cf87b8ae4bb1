package judge

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestUnknownKeeps turns each fact of random cases to Unknown: a pod that was kept is never removed by that, and no entry
// is changed by it.
func TestUnknownKeeps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fact := func() Fact {
		return Fact{Truth: Truth(r.IntN(3)), Alive: r.IntN(2) == 0}
	}
	for range 20000 {
		c := dead()
		for i := range c.Pod.Facts {
			if r.IntN(4) == 0 {
				c.Pod.Facts[i] = fact()
			}
		}
		c.Hold.Since = now.Add(-time.Duration(r.IntN(120)) * time.Second)
		before, _ := Dead(c)
		for i := range c.Pod.Facts {
			changed := c
			changed.Pod.Facts[i] = Fact{}
			switch after, _ := Dead(changed); {
			case FactName(i) == Reported || FactName(i) == Restored || FactName(i) == Eligible: // not read from the scan
			case after.Decision == Remove:
				t.Fatalf("%s is unknown, and the pod is removed: %+v", FactName(i), changed.Pod.Facts)
			case before.Decision == Wait && after.Decision == Remove:
				t.Fatalf("%s: %s became %s", FactName(i), before.Decision, after.Decision)
			}
		}
	}
	for range 20000 {
		in := quarantined()
		p := &in.Snapshot.Pods[0]
		p.Present, p.SkeletonOnly = Truth(r.IntN(3)), Truth(r.IntN(3))
		for i := range p.Facts {
			p.Facts[i] = fact()
		}
		n := FactName(r.IntN(int(numFacts)))
		if p.Facts[n] = (Fact{}); !askedOfEntries(n) || n == Directory {
			continue
		}
		if d := Decide(in); len(d.Plan.Cleans) > 0 {
			t.Fatalf("%s is unknown, and the entry is cleaned: %+v", n, p)
		}
	}
}
