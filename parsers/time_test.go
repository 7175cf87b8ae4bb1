package parsers

import "testing"

// TestTimesOfNoClock checks that a time that RFC 3339 cannot write is not certain, whatever its source.
func TestTimesOfNoClock(t *testing.T) {
	const text = ` node kubelet[12]: E1126 20:00:00.000000      12 kubelet_volumes.go:154] orphaned pod "11111111-2222-4333-8444-555555555501" found, ` +
		`but volume paths are still present on disk`
	for stamp, certain := range map[string]bool{
		"9999-12-31T23:59:59-12:00": false, "0000-01-01T00:00:00+12:00": false, "9999-12-31T23:59:59Z": true, "2026-11-26T20:00:00Z": true,
	} {
		s, ok := new(Parser).Parse(Line{Text: []byte(stamp + text)})
		if !ok || s.Time.IsZero() == certain {
			t.Errorf("%s: %t, %s", stamp, ok, s.Time)
		}
	}
}
