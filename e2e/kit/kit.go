// Package kit is what the suites share: how they wait, for something to become so and never for a span of time; their
// place on the machine; and the entries of a node's journal.
package kit

import (
	"fmt"
	"testing"
	"time"
)

// Slowness is the factor by which a step may be slower on a shared machine than on the one for which its time
// was chosen. It costs no time: Eventually returns as soon as the condition holds.
const Slowness = 3

const pause = 200 * time.Millisecond

// Eventually waits until what returns ""; what returns the text of what is missing.
func Eventually(t *testing.T, limit time.Duration, what func() string) {
	t.Helper()
	limit *= Slowness
	deadline := time.Now().Add(limit)
	for {
		missing := what()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, missing)
		}
		time.Sleep(pause)
	}
}

// Throughout fails where it is not so at any time in the span.
func Throughout(t *testing.T, span time.Duration, what func() string) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(pause) {
		if wrong := what(); wrong != "" {
			t.Fatal(wrong)
		}
	}
}

// Missing returns the text for Eventually: "" if ok.
func Missing(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
