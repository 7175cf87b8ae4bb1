package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// pasteNode is a node that the operator selects by three flags, two of which need quotes. Its shell finds
// orphan-reaper by name.
func pasteNode(t *testing.T) (n *wholeNode, shell func(command string) (text string, code int)) {
	t.Helper()
	n = newWholeNode(t)
	n.write("my settings.yaml", fmt.Sprintf("cgroup_root: %q\ncni_cache_dir: %q\ncni_data_dir: %q\ncni_conf_dir: %q\nmetrics_file: %q\n"+
		"runtime_endpoint: none\nhold: 0s\nconfirm: 0s\nlog_format: text\n",
		n.path("cgroup"), n.path("cni"), n.path("cni/networks"), n.path("net.d"), n.path("metrics.prom")))
	testkit.Must(t, os.Rename(n.path("root"), n.path("the kubelet")))
	n.write("bin/orphan-reaper", fmt.Sprintf("#!/bin/sh\nexec orphan-reaper-whole --node-root %s --node-namespaces self \"$@\"\n", n.dir))
	testkit.Must(t, os.Chmod(n.path("bin/orphan-reaper"), 0o700))
	return n, func(command string) (string, int) {
		t.Helper()
		cmd := bounded(t, "sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+n.path("bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

// TestWholePaste checks that a printed command refers to the operator's node wherever it is printed: on the screen,
// in JSON, and in an error.
func TestWholePaste(t *testing.T) {
	n, shell := pasteNode(t)
	uid := wholeUID(1)
	n.write("the kubelet/pods/"+uid+"/volumes/kubernetes.io~empty-dir/cache/file", "x")
	flags := fmt.Sprintf(`--config '%s' --root-dir '%s' --state-dir %s --node-namespaces self --node-root %s`,
		n.path("my settings.yaml"), n.path("the kubelet"), n.path("state"), n.dir)
	printed := func(command, want string) string {
		t.Helper()
		out, _ := shell(command + " " + flags)
		want += " " + flags
		if !strings.Contains(out, want+"\n") && !strings.Contains(out, want+" ") && !strings.Contains(out, want+`"`) {
			t.Fatalf("%s does not print %s:\n%s", command, want, out)
		}
		return want
	}
	paste := func(command, want string) {
		t.Helper()
		if out, code := shell(command); code != 0 || !strings.Contains(out, want) {
			t.Fatalf("%s: %d\n%s", command, code, out)
		}
	}
	forget := "orphan-reaper quarantine forget " + uid + " " + flags
	printed("orphan-reaper doctor", "orphan-reaper sweep")
	printed("orphan-reaper doctor -o json", "orphan-reaper sweep")
	relative := "cd " + n.dir + " && orphan-reaper doctor --config 'my settings.yaml' --root-dir 'the kubelet' --state-dir state"
	if out, _ := shell(relative); !strings.Contains(out, "    orphan-reaper sweep "+flags+"\n") {
		t.Errorf("%s prints a command that selects another node elsewhere:\n%s", relative, out)
	}
	if out, code := shell("orphan-reaper explain " + uid + " " + flags); code != 0 || strings.Contains(out, "waived") ||
		!strings.Contains(out, "\nHow it was judged: --runtime-endpoint none: no kubelet and no runtime were\nasked.\n") {
		t.Errorf("with a missing runtime: %d\n%s", code, out)
	}
	paste(printed("orphan-reaper scan", "orphan-reaper sweep"), uid)
	paste(printed("orphan-reaper sweep "+uid, "orphan-reaper explain "+uid), "How to undo")
	paste(printed("orphan-reaper explain -o json "+uid, "orphan-reaper quarantine restore "+uid), "\n  "+forget+"\n")
	paste(forget, "forgotten")
	paste(printed("orphan-reaper quarantine restore beef", "orphan-reaper quarantine list"), "Nothing lies in quarantine.")
	if _, err := os.Stat(n.path("the kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/cache/file")); err != nil {
		t.Error(err)
	}
}
