package decide

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestSameQuarantine: with entries that the ledger knows, a quarantine is the same one only where
// something shows it; and where nothing was written down, an older program has filled it.
func TestSameQuarantine(t *testing.T) {
	for name, c := range map[string]struct {
		q    Quarantine
		want bool
	}{
		"nothing in it":                        {Quarantine{Remembered: true, Path: policy.No, Dir: policy.No, Found: policy.No}, true},
		"an older program's":                   {Quarantine{Known: 1, Path: policy.No, Dir: policy.No, Found: policy.No}, true},
		"its path":                             {Quarantine{Known: 1, Remembered: true, Path: policy.Yes}, true},
		"another path":                         {Quarantine{Known: 1, Remembered: true, Path: policy.No, Dir: policy.Yes, Found: policy.Yes}, false},
		"its directory":                        {Quarantine{Known: 1, Remembered: true, Dir: policy.Yes}, true},
		"another directory, an entry is there": {Quarantine{Known: 1, Remembered: true, Dir: policy.No, Found: policy.Yes}, true},
		"another directory, empty":             {Quarantine{Known: 1, Remembered: true, Dir: policy.No, Found: policy.No}, false},
		"nothing is known":                     {Quarantine{Known: 1, Remembered: true}, false},
	} {
		if got := c.q.Same(); got != c.want {
			t.Errorf("%s: same %t", name, got)
		}
	}
}
