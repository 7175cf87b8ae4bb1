package reading

import "testing"

// TestLife: each use of the signs of life asks for others, and none for what was not told.
func TestLife(t *testing.T) {
	for name, c := range map[string]struct {
		life            Life
		over, any, here bool
	}{
		"nothing":               {Life{}, false, false, false},
		"a sandbox that is not": {Life{Sandbox: true}, false, true, false},
		"a container":           {Life{Container: true}, false, true, false},
		"an empty cgroup":       {Life{Cgroup: true}, false, false, false},
		"a process":             {Life{Cgroup: true, Process: true}, true, true, false},
		"old, and in a cgroup":  {Life{Sandbox: true, Cgroup: true}, false, true, true},
		"it runs":               {Life{Ready: true, Sandbox: true, Cgroup: true, Process: true}, true, true, true},
		"it runs elsewhere":     {Life{Ready: true, Sandbox: true}, true, true, false},
	} {
		if got := c.life.PassOver(false, false) != ""; got != c.over {
			t.Errorf("%s: passed over %v", name, got)
		}
		if c.life.PassOver(true, false) != "" || c.life.PassOver(false, true) != "" {
			t.Errorf("%s: passed over though it was asked for, or is parked", name)
		}
		if c.life.Any() != c.any || c.life.Here() != c.here {
			t.Errorf("%s: any %v, here %v", name, c.life.Any(), c.life.Here())
		}
	}
}
