package testkit

import "testing"

// TestReason: a test that was skipped in its namespace gives its reason as one line.
func TestReason(t *testing.T) {
	text := "=== RUN   TestX\n    x_test.go:1: a note\n    x_test.go:12: this needs a: b\n--- SKIP: TestX (0.00s)\nPASS\n"
	if got := skipReason(text); got != "this needs a: b" {
		t.Errorf("%q", got)
	}
}
