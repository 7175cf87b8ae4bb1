package kit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Event is one entry of a journal, by journald's field names.
type Event map[string]any

// Get returns the value of a field, or "".
func (e Event) Get(field string) string {
	s, _ := e[field].(string)
	return s
}

// Is reports whether it is a record of that kind, with the given reason, if any.
func (e Event) Is(kind policy.Kind, reason policy.Reason) bool {
	return e.Get("ORPHAN_REAPER_KIND") == string(kind) &&
		(reason == "" || slices.Contains(strings.Split(e.Get("ORPHAN_REAPER_REASONS"), ","), string(reason)))
}

// ParseEvents parses the output of journalctl --output=json.
func ParseEvents(t *testing.T, out string) (all []Event) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// Texts returns the kinds, messages and reasons of all, for a failure.
func Texts(all []Event) string {
	var b strings.Builder
	for _, e := range all {
		b.WriteString("\n" + e.Get("ORPHAN_REAPER_KIND") + ": " + e.Get("MESSAGE") + " " + e.Get("ORPHAN_REAPER_REASON_DETAIL"))
	}
	return b.String()
}
