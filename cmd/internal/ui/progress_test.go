package ui

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

func noEnv(string) string { return "" }

// TestFollow: with verbose each phase is written when it has ended, also in a pipe; without it nothing is.
func TestFollow(t *testing.T) {
	var out bytes.Buffer
	if w, stop := Follow(&out, time.Now, false); w != nil {
		t.Error("a pipe gets progress")
	} else {
		stop()
	}
	now := time.Unix(0, 0)
	w, stop := Follow(&out, func() time.Time { return now }, true)
	for i, want := range []struct {
		what, unit  string
		done, total int64
		took        time.Duration
		text        string
	}{
		{"looking at the node", "", 0, 0, 6795688 * time.Nanosecond, "looking at the node: 7ms"},
		{"sweeping the files", "file", 2, 300_000, 14_387 * time.Millisecond, "sweeping the files: 2 of 300,000 files, 14.387s"},
		{"reading a\x1b]0;x\a.log", "file", 3, 3, 2 * time.Minute, `reading a\x1b]0;x\a.log: 3 files, 2m`},
		{"removing", "entry", 70, 0, time.Second, "removing: 70 entries, 1s"},
	} {
		out.Reset()
		w.Begin(want.what, want.unit, want.total)
		w.Add(want.done)
		now = now.Add(want.took)
		if w.End(); out.String() != fmt.Sprintf("orphan-reaper: %s\n", want.text) {
			t.Errorf("%d: %q, want %q", i, out.String(), want.text)
		}
	}
	stop()
}
