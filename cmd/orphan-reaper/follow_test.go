package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// working is a scan that has swept 100,000 of 300,000 files in ten seconds when it waits for what
// is shown of that, writes a record, waits again, and ends with err.
type working struct {
	t       *testing.T
	console *ui.Console
	want    string      // in the line
	seen    chan string // what the terminal shows, piece by piece
	all     strings.Builder
	elapsed atomic.Int64
	err     error
}

func (w *working) now() policy.Instant {
	i := at(0)
	i.Wall = i.Wall.Add(time.Duration(w.elapsed.Load()))
	return i
}

// wait reads on until the terminal has shown the line since it was asked.
func (w *working) wait() {
	for shown := ""; !strings.Contains(shown, w.want); {
		piece, ok := <-w.seen
		if !ok {
			w.t.Fatalf("no %q in %q", w.want, shown)
		}
		shown += piece
		w.all.WriteString(piece)
	}
}

func (w *working) survey(ctx context.Context, _ config.Config, _ []parsers.PodUID) (reaper.Report, error) {
	work := progress.From(ctx)
	defer work.End()
	work.Begin("sweeping the files of CNI", "file", 300_000)
	work.Add(100_000)
	w.elapsed.Store(int64(10 * time.Second))
	w.wait()
	if _, err := io.WriteString(w.console.Stderr(), "a record of a pod\n"); err != nil {
		w.t.Error(err)
	}
	w.wait()
	return reaper.Report{}, w.err
}

// TestProgress: while a scan works on a terminal one line says how far it is. A record stands above it,
// and when the scan has ended, or failed, nothing of it is left.
func TestProgress(t *testing.T) {
	env := map[string]string{"NO_COLOR": "1", "TERM": "xterm"}
	get := func(key string) string { return env[key] }
	for _, c := range []struct {
		columns    int
		args       []string
		line, left string
		err        error
		code       int
	}{
		{80, []string{"scan"}, "sweeping the files of CNI: 100,000 of 300,000 files, 20s left\x1b[K\r\n", "a record of a pod\n", nil, 0},
		{40, []string{"scan"}, "sweeping the files of CNI: 100,000 of …\x1b[K\r\n", "a record of a pod\n", nil, 0},
		{
			80,
			[]string{"scan", "-v"},
			"100,000 of 300,000 files, 20s left\x1b[K\r\n",
			"a record of a pod\norphan-reaper: sweeping the files of CNI: 100,000 files in 10s, 10,000/s\n", nil, 0,
		},
		{80, []string{"scan"}, "20s left\x1b[K\r\n", "a record of a pod\norphan-reaper: error: the node is away\n", errNode, 1},
	} {
		t.Run(fmt.Sprintf("%v-%d-%d", c.args, c.columns, c.code), func(t *testing.T) {
			screen, tty := testkit.Terminal(t, c.columns)
			var out bytes.Buffer
			console := ui.NewConsole(&out, tty, get)
			w := &working{t: t, console: console, want: c.line, seen: make(chan string, 1000), err: c.err}
			go func() {
				defer close(w.seen)
				for buf := make([]byte, 4096); ; {
					n, err := screen.Read(buf)
					if err != nil {
						return
					}
					w.seen <- string(buf[:n])
				}
			}()
			d := fakeDeps(get)
			d.survey, d.now = w.survey, w.now
			if code := runOn(console, d, c.args, strings.NewReader(""), get); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			testkit.Must(t, tty.Close())
			for piece := range w.seen {
				w.all.WriteString(piece)
			}
			raw := w.all.String()
			if got := testkit.Shown(t, raw, 200); got != c.left {
				t.Errorf("left:\n%s\nwant\n%s\nof %q", got, c.left, raw)
			}
			for line := range strings.Lines(raw) {
				if n := len([]rune(strings.TrimRight(line, "\r\n"))); strings.Contains(line, "left") && n > c.columns+len("\x1b[A\r\x1b[J\x1b[K") {
					t.Errorf("%d columns: %q", n, line)
				}
			}
		})
	}
}

// TestQuiet: with --quiet there is neither progress nor a note, and records are errors only. What
// the command was asked for and errors are there.
func TestQuiet(t *testing.T) {
	levels := map[string]string{}
	answers := func(held string, args ...string) (string, string, int) {
		env := func(key string) string { return map[string]string{"FAKE": held}[key] }
		d := fakeDeps(env)
		inner := d.survey
		d.survey = func(ctx context.Context, cfg config.Config, uids []parsers.PodUID) (reaper.Report, error) {
			levels[strings.Join(args, " ")] = cfg.LogLevel
			work := progress.From(ctx)
			defer work.End()
			work.Begin("looking at the node", "", 0)
			return inner(ctx, cfg, uids)
		}
		var out, errs bytes.Buffer
		code := runWith(d, args, strings.NewReader(""), &out, &errs, env)
		return out.String(), errs.String(), code
	}
	answer, errs, _ := answers("all", "scan")
	if errs != "" {
		t.Errorf("in a pipe: %s", errs)
	}
	if out, errs, _ := answers("all", "scan", "-q"); out != answer || errs != "" {
		t.Errorf("-q: %s%s", out, errs)
	}
	if out, errs, _ := answers("all", "scan", "--verbose"); out != answer || errs != "orphan-reaper: looking at the node: 0s\n" {
		t.Errorf("-v: %s%s", out, errs)
	}
	if levels["scan"] != "info" || levels["scan -q"] != "error" || levels["scan --verbose"] != "info" {
		t.Errorf("%v", levels)
	}
	if _, errs, code := answers("broken", "scan", "-q"); errs != "orphan-reaper: error: the node is away\n" || code != 1 {
		t.Errorf("an error: %d %s", code, errs)
	}
	if _, errs, code := answers("all", "scan", "-q", "-v"); code != 2 || !strings.Contains(errs, "give either --quiet or --verbose") {
		t.Errorf("both: %d %s", code, errs)
	}
	if code, _, errs := call(t, "all", "quarantine", "purge", "--yes", "0badf00d-0006"); !strings.HasPrefix(errs, "orphan-reaper: 0badf00d-0006 is pod ") {
		t.Errorf("the note that -q leaves out: %d %s", code, errs)
	}
	if code, _, errs := call(t, "all", "quarantine", "purge", "-q", "--yes", "0badf00d-0006"); errs != "" || code != 0 {
		t.Errorf("a note in spite of -q: %d %s", code, errs)
	}
}

// TestLongCommands: every command that may take its time has both flags, and the root's -v stays
// the version's.
func TestLongCommands(t *testing.T) {
	root := newRootCommand(&cli{env: func(string) string { return "" }, given: map[string][]string{}})
	for _, path := range []string{
		"doctor", "scan", "explain", "sweep", "parse", "quarantine restore", "quarantine purge", "fleet list", "fleet sweep",
	} {
		c, _, err := root.Find(strings.Fields(path))
		testkit.Must(t, err)
		q, v := c.Flags().ShorthandLookup("q"), c.Flags().ShorthandLookup("v")
		if q == nil || q.Name != "quiet" || v == nil || v.Name != "verbose" {
			t.Errorf("%s: -q is %v, -v is %v", path, q, v)
		}
	}
	if code, out, _ := call(t, "", "-v"); code != 0 || !strings.HasPrefix(out, "orphan-reaper ") {
		t.Errorf("-v: %d %s", code, out)
	}
}

// TestParseVerbose: a file is counted in its own bytes, also where gzip compressed it.
func TestParseVerbose(t *testing.T) {
	plain := bytes.Repeat([]byte("no line of a kubelet\n"), 1000)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(plain)
	testkit.Must(t, err)
	testkit.Must(t, w.Close())
	for size, content := range map[string][]byte{"21 KiB": plain, human.Size(int64(z.Len())): z.Bytes()} {
		file := filepath.Join(t.TempDir(), "log")
		testkit.Must(t, os.WriteFile(file, content, 0o600))
		code, _, errs := call(t, "", "parse", "-v", file)
		if code != 0 || !strings.HasPrefix(errs, "orphan-reaper: reading "+file+": "+size+" in 0s, ") {
			t.Errorf("%s: %d %s", size, code, errs)
		}
	}
}
