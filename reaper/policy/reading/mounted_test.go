package reading

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMounted: a mount that was met counts whatever mountinfo says, and none that was met changes nothing.
func TestMounted(t *testing.T) {
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	for _, c := range []struct {
		known, below, own, want policy.Truth
		origin                  string
	}{
		{no, unknown, no, no, "known"},
		{unknown, unknown, no, unknown, "known"},
		{unknown, no, no, unknown, "known"},
		{no, yes, no, yes, "below"},
		{unknown, yes, yes, yes, "below"},
		{no, unknown, yes, yes, "own"},
		{yes, yes, yes, yes, "known"},
	} {
		f := Mounted(policy.Fact{Truth: c.known, Origin: "known"}, policy.Fact{Truth: c.below, Origin: "below"}, policy.Fact{Truth: c.own, Origin: "own"})
		if f.Truth != c.want || f.Origin != c.origin {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}
