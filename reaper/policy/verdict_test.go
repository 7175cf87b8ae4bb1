package policy

import "testing"

// TestUnread checks that a pod that was passed over is kept for its sign of life only, whatever the other facts are.
func TestUnread(t *testing.T) {
	s := deadScene()
	s.ev.Unread = true
	s.ev.Facts[FactContent], s.ev.Facts[FactStaged] = Fact{Detail: "not read: the pod lives"}, Fact{}
	v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
	if v.Decision != Keep || !v.For(ReasonContentUnknown) {
		t.Errorf("unread pod without a sign of life: %s, %v", v.Decision, v.Why)
	}
	for fact, reason := range map[FactName]Reason{FactCgroup: ReasonCgroup, FactSandbox: ReasonSandbox, FactContainer: ReasonContainer} {
		e := s.ev
		e.Facts[fact].Truth = Yes
		v := Judge(e, s.node, s.hold, s.rules, s.now)
		if v.Decision != Keep || !v.For(reason) || v.For(ReasonContentUnknown) || v.For(ReasonStaged) {
			t.Errorf("%s: %s, %v", fact, v.Decision, v.Why)
		}
	}
	// Without the guard the facts that were read do not keep the pod.
	s.ev.Unread = false
	s.ev.Facts[FactContent].Truth, s.ev.Facts[FactStaged].Truth = Yes, No
	if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Reap {
		t.Errorf("the scene is not dead: %v", v.Why)
	}
}
