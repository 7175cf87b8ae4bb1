package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func noEnv(string) string { return "" }

// TestConsole: on a terminal one line is drawn in place. It fits the terminal. Notes and records are above it, whole,
// and nothing of it is left in the end.
func TestConsole(t *testing.T) {
	for columns, want := range map[int]string{
		80: "\rsweeping the files: 12,345 of 300,000 files, 10s\x1b[K",
		40: "\rsweeping the files: 12,345 of 300,000 …\x1b[K",
	} {
		screen, tty := testkit.Terminal(t, columns)
		c := NewConsole(tty, tty, noEnv)
		now := time.Unix(0, 0)
		clock := func() time.Time { return now }
		w, stop := c.Follow(clock, false)
		w.Begin("sweeping the files", "file", 300_000)
		w.Add(12_345)
		now = now.Add(10 * time.Second)
		for _, text := range []string{"a record\n", "some output\n"} {
			c.draw(w, clock)
			_, err := io.WriteString(c.Stderr(), text)
			testkit.Must(t, err)
		}
		c.draw(w, clock)
		w.End()
		c.draw(w, clock) // nothing is drawn between phases
		stop()
		testkit.Must(t, tty.Close())
		b, err := io.ReadAll(screen)
		if err != nil && !errors.Is(err, syscall.EIO) { // how a terminal ends, pty(7)
			t.Fatal(err)
		}
		raw := strings.ReplaceAll(string(b), "\r\n", "\n")
		const erased = "\r\x1b[K"
		left := strings.ReplaceAll(strings.ReplaceAll(raw, want, ""), erased, "")
		if n := strings.Count(raw, want); left != "a record\nsome output\n" || n < 3 || strings.Count(raw, want+erased) != n {
			t.Errorf("%d columns: %q", columns, raw)
		}
	}
}

// TestConsoleSilent: nothing is drawn in a pipe, and on a terminal without escapes.
func TestConsoleSilent(t *testing.T) {
	var out bytes.Buffer
	_, tty := testkit.Terminal(t, 80)
	defer tty.Close() //nolint:errcheck // nothing was written
	_, pipe, err := os.Pipe()
	testkit.Must(t, err)
	defer pipe.Close() //nolint:errcheck // nothing was written
	for name, c := range map[string]*Console{
		"no terminal": NewConsole(&out, &out, noEnv),
		"a dumb one":  NewConsole(tty, tty, func(key string) string { return map[string]string{"TERM": "dumb"}[key] }),
		"a pipe":      NewConsole(pipe, tty, noEnv),
	} {
		if w, stop := c.Follow(time.Now, false); w != nil {
			t.Errorf("%s: something is shown", name)
		} else {
			stop()
		}
	}
}

// TestVerbose: each phase is written when it has ended, also in a pipe.
func TestVerbose(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	w, stop := NewConsole(&out, &out, noEnv).Follow(func() time.Time { return now }, true)
	for i, want := range []struct {
		what, unit  string
		done, total int64
		took        time.Duration
		text        string
	}{
		{"looking at the node", "", 0, 0, 6795688 * time.Nanosecond, "looking at the node: 7ms"},
		{"sweeping the files", "file", 2, 300_000, 14_387 * time.Millisecond, "sweeping the files: 2 of 300,000 files, 14.387s"},
		{"reading kubelet\x1b]0;x\a.log", progress.Bytes, 3 << 30, 3 << 30, 2 * time.Minute, `reading kubelet\x1b]0;x\a.log: 3.0 GiB, 2m`},
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
