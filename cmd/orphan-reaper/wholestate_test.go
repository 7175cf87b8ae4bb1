package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// formatV1 is a state directory as an older program left it.
const formatV1 = "../../reaper/state/testdata/v1"

// oldNode is a node with the state of an older program.
func oldNode(t *testing.T) *wholeNode {
	t.Helper()
	n := newWholeNode(t)
	n.write("log", "")
	testkit.Must(t, os.CopyFS(n.path("state"), os.DirFS(formatV1)))
	testkit.Must(t, os.Chmod(n.path("state"), 0o700))
	n.replace("state/quarantine.json", "/var/lib/kubelet/orphan-reaper", n.path("root/orphan-reaper"))
	return n
}

func (n *wholeNode) replace(name, was, now string) {
	n.t.Helper()
	b, err := os.ReadFile(n.path(name))
	if err != nil || !bytes.Contains(b, []byte(was)) {
		n.t.Fatalf("%s: no %q in it, %v", name, was, err)
	}
	n.write(name, strings.ReplaceAll(string(b), was, now))
}

// stateFiles are the contents of all files of the state directory; locks hold nothing.
func (n *wholeNode) stateFiles() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(n.path("state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	testkit.Must(n.t, err)
	return all
}

// TestUpgrade: this program shows the state of an older one.
func TestUpgrade(t *testing.T) {
	n := oldNode(t)
	out, code := n.run("quarantine", "list")
	if code != 0 || !strings.Contains(out, "held\t2c9a1c3e-5f0e-4c39-9d3b-000000000001\t") || !strings.Contains(out, "cni-20261101-020304-000") {
		t.Errorf("list: %d\n%s", code, out)
	}
	out, code = n.run("explain", "2c9a1c3e-5f0e-4c39-9d3b-000000000002")
	if code != 0 || strings.Count(out, "2026-11-01 02:") != 3 || !strings.Contains(out, "vol_data.json") {
		t.Errorf("explain of a pod that is long gone: %d\n%s", code, out)
	}
	if out, code = n.run("scan"); code != 3 || !strings.Contains(out, "In conflict: 1 pod") {
		t.Errorf("scan: %d\n%s", code, out)
	}
}

// TestRollback: each file that a newer program wrote is refused with a message, by every command, and all of
// the state is kept, so that the newer one finds it.
func TestRollback(t *testing.T) {
	const uid = "2c9a1c3e-5f0e-4c39-9d3b-000000000001"
	daemon := []string{"run", "--log-source", "file", "--log-file"}
	all := [][]string{
		daemon,
		{"sweep", "--no-wait"},
		{"scan"},
		{"explain", uid},
		{"quarantine", "list"},
		{"quarantine", "restore", uid},
		{"quarantine", "purge", "--yes", uid},
		{"quarantine", "resume"},
	}
	for name, c := range map[string]struct {
		file, was, now string
		commands       [][]string
	}{
		"directory":   {"version", "1", "2", all},
		"ledger":      {"ledger.jsonl", `"kind":"unswept"`, `"kind":"teleported"`, all},
		"holds":       {"holds.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}}},
		"heard":       {"heard.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}}},
		"home":        {"home.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}, {"quarantine", "purge", "--yes", uid}}},
		"checkpoints": {"checkpoints.json", `"version":1`, `"version":2`, [][]string{daemon}},
		"quarantine":  {"quarantine.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}, {"quarantine", "restore", uid}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := oldNode(t)
			n.replace("state/"+c.file, c.was, c.now)
			before := n.stateFiles()
			for _, args := range c.commands {
				if args[0] == "run" {
					args = append(slices.Clip(args), n.path("log"))
				}
				if printed, code := n.printed(args...); code != 1 || !strings.Contains(printed, "newer version of orphan-reaper") {
					t.Errorf("%v: exit code %d\n%s", args, code, printed)
				}
			}
			if after := n.stateFiles(); !maps.Equal(before, after) {
				for path := range after {
					if before[path] != after[path] {
						t.Errorf("%s was changed", path)
					}
				}
				t.Errorf("%d files, before %d", len(after), len(before))
			}
		})
	}
}
