package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func noEnv(string) string { return "" }

// readAll returns what a terminal has shown once its other end was closed.
func readAll(t *testing.T, screen io.Reader, tty io.Closer) string {
	t.Helper()
	testkit.Must(t, tty.Close())
	b, err := io.ReadAll(screen)
	if err != nil && !errors.Is(err, syscall.EIO) { // how a terminal ends, pty(7)
		t.Fatal(err)
	}
	return string(b)
}

// TestConsole: on a terminal one line is drawn in place. It fits the terminal. Notes and records stand
// above it, whole, and nothing of it is left in the end.
func TestConsole(t *testing.T) {
	for columns, want := range map[int]string{
		80: "sweeping the files: 12,345 of 300,000 files, 3m left",
		40: "sweeping the files: 12,345 of 300,000 …",
	} {
		screen, tty := testkit.Terminal(t, columns)
		c := NewConsole(tty, tty, noEnv)
		f := &follower{console: c, start: time.Unix(0, 0)}
		f.o.Now = func() time.Time { return f.start }
		w := progress.New(f.turn)
		w.Begin("sweeping the files", "file", 300_000)
		f.drawNow(f.start.Add(quietFor - 1)) // too early
		w.Add(45)
		f.drawNow(f.start.Add(time.Second))
		_, err := io.WriteString(c.Stderr(), "a record\n")
		testkit.Must(t, err)
		w.Add(12_300)
		f.drawNow(f.start.Add(10 * time.Second))
		_, err = io.WriteString(c.Stdout(), "some output\n")
		testkit.Must(t, err)
		f.drawNow(f.start.Add(10 * time.Second))
		_, err = fmt.Fprint(c.Stderr(), "Sure? ")
		testkit.Must(t, err)
		f.drawNow(f.start.Add(11 * time.Second)) // not below a question
		c.Answered()
		_, err = fmt.Fprint(c.Stderr(), "yes\n")
		testkit.Must(t, err)
		f.drawNow(f.start.Add(10 * time.Second))
		f.drawNow(f.start.Add(10 * time.Second)) // the same again is not drawn
		c.mu.Lock()
		line := c.line
		c.mu.Unlock()
		if line != want {
			t.Errorf("%d columns: %q, want %q", columns, line, want)
		}
		w.End()
		raw := strings.ReplaceAll(readAll(t, screen, tty), "\r\n", "\n")
		if got := testkit.Shown(t, raw, columns); got != "a record\nsome output\nSure? yes\n" {
			t.Errorf("%d columns: left on the screen:\n%s\n%q", columns, got, raw)
		}
		if n := strings.Count(raw, "of 300,000"); n != 4 {
			t.Errorf("%d columns: drawn %d times, want 4: %q", columns, n, raw)
		}
	}
}

// TestConsoleSilent: without a terminal, or with one that knows no escapes, nothing is drawn, and the
// streams are those that were given.
func TestConsoleSilent(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out, &out, noEnv)
	if w, stop := c.Follow(FollowOptions{Now: time.Now}); w != nil || c.Stdout() != io.Writer(&out) || c.Stderr() != io.Writer(&out) {
		t.Error("something is shown in a pipe")
	} else {
		stop()
	}
	_, tty := testkit.Terminal(t, 80)
	defer tty.Close() //nolint:errcheck // nothing was written
	dumb := NewConsole(tty, tty, func(key string) string { return map[string]string{"TERM": "dumb"}[key] })
	if w, _ := dumb.Follow(FollowOptions{Now: time.Now}); w != nil || dumb.Stderr() != io.Writer(tty) {
		t.Error("something is drawn on a dumb terminal")
	}
}

// TestConsolePipe: once another program reads the output, the terminal may be that program's.
func TestConsolePipe(t *testing.T) {
	screen, tty := testkit.Terminal(t, 80)
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close() //nolint:errcheck // read only
	c := NewConsole(w, tty, noEnv)
	c.draw("first")
	_, err = io.WriteString(c.Stdout(), "out\n")
	testkit.Must(t, err)
	c.draw("second")
	testkit.Must(t, w.Close())
	if raw := readAll(t, screen, tty); strings.Contains(raw, "second") || strings.TrimSpace(testkit.Shown(t, raw, 80)) != "" {
		t.Errorf("%q", raw)
	}
}

// TestFollow: a line is drawn by itself while the work goes on, and is gone when it has ended.
func TestFollow(t *testing.T) {
	screen, tty := testkit.Terminal(t, 80)
	c := NewConsole(tty, tty, noEnv)
	var asked atomic.Int64
	now := func() time.Time { // the command has worked for a minute when it is asked again
		return time.Unix(0, 0).Add(time.Duration(min(asked.Add(1), 2)) * time.Minute)
	}
	w, stop := c.Follow(FollowOptions{Now: now})
	w.Begin("looking", "", 0)
	buf, seen := make([]byte, 4096), ""
	for !strings.Contains(seen, "looking: 0s") {
		n, err := screen.Read(buf)
		testkit.Must(t, err)
		seen += string(buf[:n])
	}
	stop()
	stop()
	seen += readAll(t, screen, tty)
	if got := testkit.Shown(t, seen, 80); got != "\n" {
		t.Errorf("left: %q of %q", got, seen)
	}
}

// TestVerbose: each phase is told when it has ended, also in a pipe.
func TestVerbose(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out, &out, noEnv)
	now := time.Unix(0, 0)
	w, stop := c.Follow(FollowOptions{Now: func() time.Time { return now }, Verbose: true})
	for _, p := range []struct {
		what, unit  string
		done, total int64
		took        time.Duration
	}{
		{"looking at the node", "", 0, 0, 6795688 * time.Nanosecond},
		{"sweeping the files", "file", 300_000, 300_000, 14_387 * time.Millisecond},
		{"reading kubelet\x1b]0;x\a.log", progress.Bytes, 3 << 30, 3 << 30, 2*time.Minute + 3456*time.Millisecond},
		{"1 orphan waits; the next step comes", progress.Wait, 0, int64(time.Minute), time.Minute},
	} {
		w.Begin(p.what, p.unit, p.total)
		w.Add(p.done)
		now = now.Add(p.took)
	}
	stop()
	const want = "orphan-reaper: looking at the node: 7ms\n" +
		"orphan-reaper: sweeping the files: 300,000 files in 14.4s, 20,852/s\n" +
		`orphan-reaper: reading kubelet\x1b]0;x\a.log: 3.0 GiB in 2m3s, 25 MiB/s` + "\n" +
		"orphan-reaper: 1 orphan waits; the next step comes: 1m\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestSoFar: what is done, of how much, and how long the rest takes.
func TestSoFar(t *testing.T) {
	for _, c := range []struct {
		s    soFar
		want string
	}{
		{soFar{"reading x", progress.Bytes, 1 << 30, 3 << 30, 8 * time.Second}, "reading x: 1.0 GiB of 3.0 GiB, 16s left"},
		{soFar{"removing", "entry", 0, 1_000_000, time.Second}, "removing: 0 of 1,000,000 entries"},
		{soFar{"removing", "entry", 50, 0, time.Second}, "removing: 50 entries"},
		{soFar{"removing", "entry", 70, 60, time.Second}, "removing: 70 entries"}, // more than was expected
		{soFar{"removing", "entry", 0, 0, 3 * time.Second}, "removing: 3s"},
		{soFar{"it comes", progress.Wait, 0, int64(time.Minute), 15 * time.Second}, "it comes in 45s"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
