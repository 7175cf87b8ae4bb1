package judge

import "testing"

// TestGate has who may change what. Each row changes one thing of a standing in which the daemon may do everything.
func TestGate(t *testing.T) {
	for _, test := range []struct {
		name            string
		edit            func(*Standing)
		restore, remove bool
	}{
		{"nothing stops it", func(*Standing) {}, true, true},
		{"a dry run", func(s *Standing) { s.DryRun = true }, false, false},
		{"mode observe", func(s *Standing) { s.Observe = true }, true, false}, // a rollout is stopped by it, with living pods in quarantine
		{"the breaker", func(s *Standing) { s.Breaker = true }, true, false},
		{"no kubelet", func(s *Standing) { s.Node.KubeletKnown.Truth = Unknown }, true, false},
		{"mounts are not visible", func(s *Standing) { s.Node.SeesMounts.Truth = Unknown }, false, false},
		{"an operator, the breaker", func(s *Standing) { s.Operator, s.Breaker = true, true }, true, true},
		{"an operator, no kubelet", func(s *Standing) { s.Operator, s.Node.KubeletKnown.Truth = true, No }, true, true},
		{"an operator, mounts are not visible", func(s *Standing) { s.Operator, s.Node.SeesMounts.Truth = true, No }, true, false},
	} {
		s := Standing{Node: Node{KubeletKnown: Fact{Truth: Yes}, SeesMounts: Fact{Truth: Yes}}}
		test.edit(&s)
		p := s.Gate()
		if why, stopped := p.Stopped(); p.MayRestore() != test.restore || p.MayRemove() != test.remove || stopped == test.remove || stopped && why.Reason == "" {
			t.Errorf("%s: restore %t, remove %t, %v", test.name, p.MayRestore(), p.MayRemove(), why)
		}
	}
	if p := (Permit{}); p.MayRestore() || p.MayRemove() {
		t.Error("the zero value permits something")
	}
}
