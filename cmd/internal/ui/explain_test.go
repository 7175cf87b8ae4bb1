package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestEachCommandOnce: two reasons that the same commands look at and end have them once, and what was seen has none.
func TestEachCommandOnce(t *testing.T) {
	e := policy.Evidence{Name: shortUID, UID: shortUID, Unmount: "orphan-reaper unmount " + shortUID}
	why := []policy.Why{{Reason: policy.ReasonMounted, Detail: "/v" + policy.Unmounting(e.Unmount)}, {Reason: policy.ReasonNotRunning}}
	var out bytes.Buffer
	p := NewPrinter(&out, func(string) string { return "" })
	explainer{Printer: p, c: Context{Place: Place{PodsDir: "/var/lib/kubelet/pods"}}}.reasons(why, &e, true)
	testkit.Must(t, p.Flush())
	for _, command := range []string{e.Unmount, "grep " + shortUID + " /proc/[0-9]*/mountinfo"} {
		if n := strings.Count(out.String(), command); n != 1 {
			t.Errorf("%d times %s:\n%s", n, command, out.String())
		}
	}
}

const shortUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"
