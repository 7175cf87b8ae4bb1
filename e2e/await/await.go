// Package await is how the suites wait: for something to become so, never for a span of time.
package await

import (
	"fmt"
	"testing"
	"time"
)

// Slowness is how much longer than on the machine they were written on things may take on one
// that others use, too. It is no time that a run needs: who waits goes on as soon as it is so.
const Slowness = 3

const pause = 200 * time.Millisecond

// Eventually waits until what is so; what returns what is still missing, "" for nothing.
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

// Missing is what Eventually waits for.
func Missing(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
