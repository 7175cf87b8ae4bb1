package cni

import (
	"fmt"
	"strings"
	"testing"
)

// TestErrorsBounded checks that thousands of unreadable directories give a few errors, the last of which counts the
// others. The tests of whole sweeps are beside the loop over pods, which runs them.
func TestErrorsBounded(t *testing.T) {
	var rep Report
	for i := range 3000 {
		rep.addErrors(fmt.Sprintf("cannot read the network tenant-%d", i), "the same")
	}
	if n := len(rep.Errors); n != mostErrors+1 || !strings.Contains(rep.Errors[n-1], "more") {
		t.Errorf("%d errors, the last of them %q", n, rep.Errors[len(rep.Errors)-1])
	}
}
