package reading

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestLife checks which signs of life let a look pass over a pod, and which count as a sign in general or on this
// node.
func TestLife(t *testing.T) {
	for name, c := range map[string]struct {
		life            Life
		over, any, here bool
	}{
		"nothing":              {Life{}, false, false, false},
		"a sandbox":            {Life{Sandbox: true}, true, true, false},
		"a container":          {Life{Container: true}, false, true, false},
		"an empty cgroup":      {Life{Cgroup: true}, false, false, false},
		"a process":            {Life{Cgroup: true, Process: true}, true, true, false},
		"a cgroup, no process": {Life{Sandbox: true, Cgroup: true}, true, true, true},
		"it runs":              {Life{Sandbox: true, Cgroup: true, Process: true}, true, true, true},
	} {
		if got := c.life.PassOver(false, false) != ""; got != c.over {
			t.Errorf("%s: passed over: %v", name, got)
		}
		if c.life.PassOver(true, false) != "" || c.life.PassOver(false, true) != "" {
			t.Errorf("%s: passed over, but selected or parked", name)
		}
		if c.life.Any() != c.any || c.life.Here() != c.here {
			t.Errorf("%s: any %v, here %v", name, c.life.Any(), c.life.Here())
		}
	}
}

// TestMounted checks that a mount found by any walk counts whatever mountinfo shows, and that finding none proves
// nothing.
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

func TestForeignCgroups(t *testing.T) {
	for name, c := range map[string]struct {
		running      int
		found, usual bool
		believed     bool
	}{
		"one is there":            {3, true, false, true},
		"none is there":           {3, false, true, false},
		"none runs, usual place":  {0, false, true, true},
		"none runs, another":      {0, false, false, false},
		"none, and another place": {1, false, false, false},
	} {
		if why := ForeignCgroups(c.running, c.found, c.usual); (why == "") != c.believed {
			t.Errorf("%s: %q", name, why)
		}
	}
}
