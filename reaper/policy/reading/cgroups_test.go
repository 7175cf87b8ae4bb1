package reading

import "testing"

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
