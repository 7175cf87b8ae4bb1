package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeRecords: on a terminal no pod that waits has a line of its own, and all of them have one together.
// In a pipe, and as JSON, each has its record.
func TestWholeRecords(t *testing.T) {
	const pods = 7
	for _, c := range []struct {
		name     string
		terminal bool
		args     []string
		waiting  bool // each by itself
		together bool
		parked   string
	}{
		{"on a terminal", true, nil, false, true, "  parked       Moved pod "},
		{"on a terminal, all of it", true, []string{"--verbose"}, true, true, "  parked       Moved "},
		{"on a terminal, quiet", true, []string{"--quiet"}, false, false, ""},
		{"in a pipe", false, nil, true, false, " parked: Moved "},
		{"as JSON", true, []string{"--log-format", "json"}, true, false, `"kind":"parked"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newKubeletNode(t, "kubelet --container-runtime-endpoint=unix://$CRI; name $pid")
			n.env = append(n.env, "POD="+wholeUID(1), "NO_COLOR=1", "TERM=dumb")
			n.args[slices.Index(n.args, "--hold")+1], n.args[slices.Index(n.args, "--confirm")+1] = "1s", "1s"
			for i := range pods {
				n.pod(i+1, false)
			}
			screen, stderr, err := os.Pipe()
			testkit.Must(t, err)
			if c.terminal {
				screen, stderr = testkit.Terminal(t, 100)
			}
			read := make(chan string)
			go func() {
				b, err := io.ReadAll(screen)
				if err != nil && !errors.Is(err, unix.EIO) { // how a terminal ends, pty(7)
					b = append(b, err.Error()...)
				}
				read <- string(b)
			}()
			cmd := n.beside("sweep", append(c.args, "--log-source", "file", "--log-file", n.path("log"))...)
			cmd.Stderr = stderr
			out, err := cmd.Output()
			testkit.Must(t, stderr.Close())
			shown := strings.ReplaceAll(<-read, "\r\n", "\n")
			if left := n.there(pods); err != nil || len(left) > 0 {
				t.Fatalf("%v, left are %v\n%s%s", err, left, out, shown)
			}
			own := strings.Count(shown, "Waiting with ")
			if c.waiting != (own >= pods) || !c.waiting && own > 0 {
				t.Errorf("%d lines on pods that wait:\n%s", own, shown)
			}
			if strings.Contains(shown, "7 pods wait for their hold, until ") != c.together {
				t.Errorf("one line on all that wait is to be there: %v\n%s", c.together, shown)
			}
			if n := strings.Count(shown, c.parked); c.parked != "" && n != pods || c.parked == "" && strings.Contains(shown, "parked") {
				t.Errorf("%d pods were parked:\n%s", n, shown)
			}
		})
	}
}
