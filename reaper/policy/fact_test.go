package policy

import "testing"

func TestCount(t *testing.T) {
	for want, c := range map[string]struct {
		n    int
		noun string
	}{
		"0 pods": {0, "pod"}, "1 entry": {1, "entry"}, "2 entries": {2, "entry"}, "1 process": {1, "process"}, "2 sandboxes": {2, "sandbox"},
	} {
		if got := Count(c.n, c.noun); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
