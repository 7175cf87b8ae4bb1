package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestQuiet: --quiet leaves out progress and notes, --verbose adds the phases; the result is the same.
func TestQuiet(t *testing.T) {
	n := newWholeNode(t)
	n.pod(0xabcdef01, true)
	answers := func(args ...string) (stdout, stderr string, code int) {
		cmd := n.command(args...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // its exit code is compared
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	answer, errs, _ := answers("explain", wholeUID(0xabcdef01))
	if errs != "" || answer == "" {
		t.Errorf("in a pipe: %s%s", answer, errs)
	}
	if out, errs, _ := answers("explain", "-q", wholeUID(0xabcdef01)); out != answer || errs != "" {
		t.Errorf("-q: %s%s", out, errs)
	}
	if out, errs, _ := answers("explain", "--verbose", wholeUID(0xabcdef01)); out != answer || !strings.HasPrefix(errs, "orphan-reaper: ") {
		t.Errorf("-v: %s%s", out, errs)
	}
	if _, errs, code := answers("scan", "-q", "-v"); code != 2 || !strings.Contains(errs, "give either --quiet or --verbose") {
		t.Errorf("both: %d %s", code, errs)
	}
	if _, errs, code := answers("sweep", "abcdef01"); code != 0 || !strings.HasPrefix(errs, "orphan-reaper: abcdef01 is pod ") {
		t.Errorf("the note that -q leaves out: %d %s", code, errs)
	}
	if _, errs, code := answers("quarantine", "purge", "-q", "--yes", "abcdef01"); errs != "" || code != 0 {
		t.Errorf("a note in spite of -q: %d %s", code, errs)
	}
}

// TestLongCommands: every command that may take its time has both flags, and the root's -v stays
// the version's.
func TestLongCommands(t *testing.T) {
	root := newRootCommand(&cli{env: noEnv, given: map[string][]string{}})
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
	if code, out, _ := call(t, "-v"); code != 0 || !strings.HasPrefix(out, "orphan-reaper ") {
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
		code, _, errs := call(t, "parse", "-v", file)
		if code != 0 || !strings.HasPrefix(errs, "orphan-reaper: reading "+file+": "+size+", ") {
			t.Errorf("%s: %d %s", size, code, errs)
		}
	}
}
