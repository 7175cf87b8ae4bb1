package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

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
		if code != 0 || !strings.HasPrefix(errs, "orphan-reaper: reading "+file+": "+size+", 0s\n") {
			t.Errorf("%s: %d %s", size, code, errs)
		}
	}
}
