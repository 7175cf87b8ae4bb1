package policy

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestPermit checks which actions each standing permits.
func TestPermit(t *testing.T) {
	for _, tt := range []struct {
		name         string
		change       func(s *Standing)
		undo, remove bool
	}{
		{"a healthy node", func(*Standing) {}, true, true},
		{"a dry run", func(s *Standing) { s.DryRun = true }, false, false},
		{"mode observe", func(s *Standing) { s.Rules.Observe = true }, false, false},
		{"the breaker is open", func(s *Standing) { s.Breaker = true }, true, false},
		{"a setting contradicts the kubelet", func(s *Standing) { s.Node.Agrees.Truth = No }, true, false},
		{"that is not known", func(s *Standing) { s.Node.Agrees.Truth = Unknown }, true, false},
		{"a mount namespace of its own", func(s *Standing) { s.Node.MayEnforce.Truth = No }, false, false},
		{"no look was taken", func(s *Standing) { s.Node = Node{} }, false, false},
		{"an operator", func(s *Standing) { s.ByPerson, s.Breaker, s.Rules.Observe = true, true, true }, true, true},
		{"an operator who does not see the mounts", func(s *Standing) { s.ByPerson, s.Node = true, Node{} }, true, false},
	} {
		s := Standing{Node: deadScene().node}
		tt.change(&s)
		p := s.Gate()
		for action, want := range map[*Action]bool{
			{Kind: Park}: tt.remove, {Kind: Clear}: tt.remove, {Kind: PutBack}: tt.undo,
			{Kind: Strip, Take: contents.TakeStrip}: tt.remove, {Kind: Purge, Take: contents.TakeAll}: tt.remove, {Kind: Strip}: tt.undo,
		} {
			if p.Allows(*action) != want {
				t.Errorf("%s: %s is allowed: %t", tt.name, action.Kind, !want)
			}
		}
		if p.Undoes() != tt.undo || p.MayRemove() != tt.remove || (Permit{}).Allows(Action{Kind: PutBack}) {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}
