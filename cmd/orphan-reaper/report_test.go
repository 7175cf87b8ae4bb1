package main

import (
	"strings"
	"testing"
	"time"
)

// TestSinceWhen checks that durations with days and dates are accepted, and that anything else is wrong usage.
func TestSinceWhen(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"30d": now.AddDate(0, 0, -30), "12h": now.Add(-12 * time.Hour), "1d12h": now.Add(-36 * time.Hour), "90m": now.Add(-90 * time.Minute),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceWhen(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "-5h", "30", "1d-48h", "99999d", "2027-01-01", "yesterday", "1d2", "\x1b[2J"} {
		code, _, errs := call(t, "report", "--since="+text)
		if code != 2 || !strings.Contains(errs, "--since") || strings.Contains(errs, "\x1b") {
			t.Errorf("%q: code %d: %s", text, code, errs)
		}
	}
}
