package testkit

import "testing"

// TestDiff prints the lines that differ, and no other.
func TestDiff(t *testing.T) {
	if got, want := Diff("a\nb\nc\nd", "a\nx\nc\nd\ne"), "-b\n+x\n+e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Diff("a\nb", "a\nb"); got != "" {
		t.Errorf("%q of equal texts", got)
	}
}

// TestReason: a test that was skipped in its namespace gives its reason as one line.
func TestReason(t *testing.T) {
	text := "=== RUN   TestX\n    x_test.go:1: a note\n    x_test.go:12: this needs a: b\n--- SKIP: TestX (0.00s)\nPASS\n"
	if got := reason(text); got != "this needs a: b" {
		t.Errorf("%q", got)
	}
}
