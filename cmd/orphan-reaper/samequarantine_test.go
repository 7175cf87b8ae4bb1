package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSameQuarantine: with another root directory the ledger does not forget what lies in quarantine.
func TestSameQuarantine(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.mkdir("other/pods")
	n.run("sweep")
	elsewhere := slices.Clone(n.args)
	elsewhere[slices.Index(elsewhere, n.path("root"))] = n.path("other")
	here := n.args
	for _, command := range [][]string{
		{"sweep", "--no-wait"},
		{"quarantine", "restore", wholeUID(1)},
		{"quarantine", "list"},
		{"quarantine", "list", "-o", "json"},
		{"run", "--log-source", "file", "--log-file", n.path("log")},
	} {
		n.args = elsewhere
		if said, code := n.said(command...); code != 1 || !strings.Contains(said, n.path("root/orphan-reaper")) {
			t.Errorf("%s: %d, %s", command, code, said)
		}
	}
	n.args = here
	if out, _ := n.run("quarantine", "list", "-o", "json"); !strings.Contains(out, `"held"`) {
		t.Errorf("the ledger has forgotten what lies there: %s", out)
	}
	if _, code := n.run("quarantine", "restore", wholeUID(1)); code != 0 {
		t.Errorf("restore: exit code %d", code)
	}
	n.args = elsewhere
	if out, code := n.run("sweep", "--no-wait", "-o", "json"); code == 1 {
		t.Errorf("with nothing in quarantine: exit code %d, %s", code, out)
	}
}

// TestQuarantineNotMounted: the kubelet's root directory is on a disk of its own that is not
// mounted yet, and a kubelet that was faster has made a pods directory below the mount point.
// The ledger forgets nothing, and once the disk is there all goes on.
func TestQuarantineNotMounted(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.run("sweep")
	before := n.stateFiles()["ledger.jsonl"]
	testkit.Must(t, os.Rename(n.path("root"), n.path("disk")))
	n.mkdir("root/pods")
	for _, args := range [][]string{{"sweep", "--no-wait"}, {"quarantine", "restore", wholeUID(1)}, {"quarantine", "purge", "--yes", wholeUID(1)}} {
		if said, code := n.said(args...); code != 1 || !strings.Contains(said, "is its disk mounted?") {
			t.Errorf("%v: %d\n%s", args, code, said)
		}
	}
	if after := n.stateFiles()["ledger.jsonl"]; after != before {
		t.Errorf("the ledger was written:\n%s", strings.TrimPrefix(after, before))
	}
	testkit.Must(t, os.RemoveAll(n.path("root")))
	testkit.Must(t, os.Rename(n.path("disk"), n.path("root")))
	if out, code := n.run("quarantine", "restore", wholeUID(1)); code != 0 {
		t.Errorf("restore: %d\n%s", code, out)
	}
	if _, err := os.Stat(n.path("root/pods/" + wholeUID(1) + "/volumes/kubernetes.io~nfs/share/file")); err != nil {
		t.Error(err)
	}
}
