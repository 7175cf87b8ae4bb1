package policy

import (
	"testing"
	"time"
)

// doubts lists the facts whose doubt concerns the node, and those whose doubt concerns the pod.
func doubts() (node, pod []FactName) {
	for _, r := range alone() {
		if r.has(shared) && r.fact != FactKubeletLists { // its silence is no doubt
			node = append(node, r.fact)
		} else if !r.has(shared) {
			pod = append(pod, r.fact)
		}
	}
	return node, pod
}

// looks judges the scene once a minute with the hold of the earlier looks, and returns the time until Reap, or 0 if
// six hours were not enough. The fact is unknown in every third look.
func (s *scene) looks(doubted FactName, forget bool) time.Duration {
	const step = time.Minute
	began := s.now
	for i := range int(6 * time.Hour / step) {
		e := s.ev
		e.Changed = s.now.Wall.Add(-time.Hour)
		doubt := i%3 == 2
		if doubt {
			e.Facts[doubted] = Fact{Own: s.own}
		}
		v := Judge(e, s.node, s.hold, s.rules, s.now)
		if doubt && v.Decision == Reap {
			return -1
		}
		if v.Decision == Reap {
			return s.now.Boot - began.Boot
		}
		s.hold = v.Hold
		if forget && doubt {
			s.hold = Hold{} // without pauses
		}
		s.now.Boot, s.now.Wall = s.now.Boot+step, s.now.Wall.Add(step)
	}
	return 0
}

// TestDoubtPauses checks that a doubt about the node in every third look only pauses the hold. Without pauses a busy
// node would never remove a pod. A doubt about the pod itself restarts its hold.
func TestDoubtPauses(t *testing.T) {
	node, pod := doubts()
	for _, f := range node {
		s := deadScene()
		s.hold, s.rules.NeedAPI = Hold{}, true
		// 5 minutes of hold, and one minute lost of every three.
		if took := s.looks(f, false); took != 7*time.Minute {
			t.Errorf("%s: reaped after %s, want 7m", f, took)
		}
		s = deadScene()
		s.hold, s.rules.NeedAPI, s.own = Hold{}, true, true
		if took := s.looks(f, false); took != 0 {
			t.Errorf("%s: a doubt about this pod alone pauses its hold: reaped after %s", f, took)
		}
		s = deadScene()
		s.hold, s.rules.NeedAPI = Hold{}, true
		if took := s.looks(f, true); took != 0 {
			t.Errorf("%s: without pauses reaped after %s, so the case proves nothing", f, took)
		}
	}
	for _, f := range pod {
		s := deadScene()
		s.hold = Hold{}
		if took := s.looks(f, false); took != 0 {
			t.Errorf("%s: a doubt about the pod itself does not restart its hold: reaped after %s", f, took)
		}
	}
}

// TestPauseIsBounded checks that a doubt that lasts too long restarts the hold: old evidence expires.
func TestPauseIsBounded(t *testing.T) {
	for _, c := range []struct {
		lasts time.Duration
		want  Decision
	}{{30 * time.Minute, Reap}, {longestPause, Reap}, {longestPause + time.Minute, Wait}} {
		s := deadScene()
		e := s.ev
		e.Facts[FactMounted] = Fact{}
		v := Judge(e, s.node, s.hold, s.rules, s.now)
		if v.Decision != Keep || v.Hold.Paused != s.now || v.Again != soonest {
			t.Fatalf("the hold does not pause: %+v", v)
		}
		s.now.Boot += c.lasts
		s.now.Wall = s.now.Wall.Add(c.lasts)
		s.ev.Changed = s.now.Wall.Add(-time.Hour)
		if again := Judge(e, s.node, v.Hold, s.rules, s.now); c.want == Reap && again.Again != latest {
			t.Errorf("after %s the look is repeated in %s, want %s", c.lasts, again.Again, latest)
		}
		if got := Judge(s.ev, s.node, v.Hold, s.rules, s.now); got.Decision != c.want || !got.Hold.Paused.Wall.IsZero() {
			t.Errorf("after a doubt of %s: %+v, want %s", c.lasts, got, c.want)
		}
	}
}

// TestPauseKeepsNothingElse checks that a pause sets no other reason aside: any other objection to the pod, and any
// change of it, restarts the hold.
func TestPauseKeepsNothingElse(t *testing.T) {
	for name, change := range map[string]func(s *scene){
		"another directory": func(s *scene) { s.ev.ID.Ino++ },
		"another boot":      func(s *scene) { s.now.BootID = "boot-2" },
		"a sign of life":    func(s *scene) { s.ev.Facts[FactCgroup].Truth = Yes },
		"no kubelet":        func(s *scene) { s.node.Kubelet = Fact{} },
		"a fresh runtime": func(s *scene) {
			s.node.RuntimeLists.Truth = No
			s.ev.Facts[FactSandbox], s.ev.Facts[FactContainer] = Fact{}, Fact{}
		},
		"no hold":      func(s *scene) { s.hold = Hold{} },
		"damaged":      func(s *scene) { s.hold.Lost = -time.Hour },
		"damaged, too": func(s *scene) { s.hold.Lost = 100 * time.Hour },
	} {
		s := deadScene()
		s.ev.Facts[FactMounted] = Fact{}
		change(s)
		if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Keep || v.Hold.Since != (Instant{}) {
			t.Errorf("%s: %s with %+v", name, v.Decision, v.Hold)
		}
	}
}

// TestHoldForgetsItsPauses checks that pauses before a whole good hold no longer count, so that a node does not use
// up the allowed pauses in weeks.
func TestHoldForgetsItsPauses(t *testing.T) {
	s := deadScene()
	s.hold.Since, s.hold.Lost = s.ago(time.Hour), 50*time.Minute
	v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
	if v.Decision != Reap || v.Hold.Lost != 0 || v.Hold.Since != s.ago(10*time.Minute) {
		t.Errorf("%s with %+v", v.Decision, v.Hold)
	}
}
