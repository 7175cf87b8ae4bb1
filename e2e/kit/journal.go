package kit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Event is one entry of a journal, by journald's field names.
type Event map[string]any

// Get returns the value of a field, or "".
func (e Event) Get(field string) string {
	s, _ := e[field].(string)
	return s
}

// Is reports whether it is a record of that kind of event, with the given reason, if any.
func (e Event) Is(kind, reason string) bool {
	return e.Get("ORPHAN_REAPER_EVENT") == kind &&
		(reason == "" || slices.Contains(strings.Split(e.Get("ORPHAN_REAPER_REASON"), ","), reason))
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

// Texts returns the kinds and messages of all, for a failure.
func Texts(all []Event) string {
	var b strings.Builder
	for _, e := range all {
		b.WriteString("\n" + e.Get("ORPHAN_REAPER_EVENT") + ": " + e.Get("MESSAGE"))
	}
	return b.String()
}
