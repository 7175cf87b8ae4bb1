package main

import (
	"strings"
	"testing"
)

// TestWholeSameCommandAgain: the same restore or purge again ends well and says that it is
// done. A pod that was never there, or of which the opposite was done, is still an error.
func TestWholeSameCommandAgain(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.pod(2, true)
	n.pod(3, false)
	if out, code := n.run("sweep"); code > 1 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for _, c := range []struct {
		args  []string
		first int
		again string
	}{
		{[]string{"quarantine", "restore", wholeUID(1)}, 0, "put back already, at "},
		{[]string{"quarantine", "purge", "--yes", wholeUID(2)}, 0, "removed already, at "},
		{[]string{"quarantine", "purge", "--yes", wholeUID(3)}, 0, "removed already, at "},
		{[]string{"quarantine", "restore", wholeUID(2)}, 1, ""},
		{[]string{"quarantine", "purge", "--yes", wholeUID(1)}, 1, ""},
		{[]string{"quarantine", "restore", wholeUID(9)}, 1, ""},
	} {
		for range 2 {
			if out, code := n.run(c.args...); code != c.first {
				t.Errorf("%v: exit %d: %s", c.args, code, out)
			}
		}
		if out, _ := n.run(c.args...); !strings.Contains(out, c.again) {
			t.Errorf("%v, again: %s", c.args, out)
		}
	}
}
