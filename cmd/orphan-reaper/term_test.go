package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHelp: every command's help fits 80 columns, has an example and says what it is.
func TestHelp(t *testing.T) {
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		name := strings.Join(append(path, "--help"), " ")
		code, out, errs := call(t, append(path, "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s", name, code, errs)
		}
		fits(t, name, out)
		if _, given, _ := call(t, append(path, "--help", "--root-dir", "/x")...); given != out {
			t.Errorf("%s: --root-dir changes the page:\n%s", name, given)
		}
		if c.Name() != "help" && !c.HasSubCommands() && !strings.Contains(out, "\nExamples:\n  ") {
			t.Errorf("%s: no example", name)
		}
		if strings.HasSuffix(c.Short, ".") || c.Short == "" || len(c.Short) > 65 {
			t.Errorf("%s: short text %q", name, c.Short)
		}
		for _, sub := range c.Commands() {
			walk(append(slices.Clone(path), sub.Name()), sub)
		}
	}
	walk(nil, newRootCommand(&cli{env: noEnv, given: map[string][]string{}}))
}

// TestContractFlags: every flag and command of the command line's contract is there.
func TestContractFlags(t *testing.T) {
	root := newRootCommand(&cli{env: noEnv, given: map[string][]string{}})
	for name := range strings.FieldsSeq(`config root-dir mode hold settle confirm retention max-per-look quarantine-dir state-dir
		log-source journal-unit log-file runtime-endpoint node-namespaces node-root cgroup-root kubelet-token-file kubelet-client-certificate kubelet-client-key
		kubeconfig node-name api-unreachable cni-cache-dir cni-data-dir cni-conf-dir
		cni-older-than metrics-file web-listen-address web-config-file web-token-review tracing-endpoint tracing-ca-file orphan-report output log-level log-format`) {
		if root.PersistentFlags().Lookup(name) == nil {
			t.Errorf("no flag --%s", name)
		}
	}
	for _, path := range []string{
		"doctor", "run", "scan", "explain", "sweep", "report", "parse", "quarantine list", "quarantine restore", "quarantine purge",
		"quarantine forget", "quarantine resume",
		"fleet list", "fleet sweep",
		"config print", "config check", "version", "completion",
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err != nil || len(rest) > 0 || !c.Runnable() {
			t.Errorf("no command %s", path)
		}
	}
	if c, _, err := root.Find([]string{"parse"}); err != nil || c.Flags().Lookup("hints") == nil {
		t.Error("no parse --hints")
	}
}

// goneReader is a pipe that nobody reads any more.
type goneReader struct{ err error }

func (g goneReader) Write([]byte) (int, error) { return 0, g.err }

// TestPipe: a reader that has gone is no failure and does not change the code; a full
// disk is one.
func TestPipe(t *testing.T) {
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	testkit.Must(t, os.MkdirAll(node+"/var/lib/kubelet/pods/backup", 0o700))
	if code := runOnNode(node, []string{"sweep"}, nil, io.Discard, io.Discard, noEnv); code != 3 {
		t.Fatalf("sweep: code %d", code)
	}
	line := `E0331 15:47:45.892216    3416 kubelet_volumes.go:245] "There were many similar errors. Turn up verbosity to see them." err="orphaned ` +
		`pod \"0badf00d-6131-4aaa-8bbb-cccc00006131\" found, but volume paths are still present on disk" numErrs=1` + "\n"
	for _, c := range []struct {
		args         []string
		gone, failed int
	}{
		{[]string{"scan"}, 3, 1},
		{[]string{"scan", "-o", "json"}, 3, 1},
		{[]string{"version"}, 0, 1},
		{[]string{"doctor"}, 3, 1},
		{[]string{"report"}, 0, 1},
		{[]string{"doctor", "-o", "json"}, 3, 1},
		{[]string{"parse"}, 0, 1},
		{[]string{"completion", "bash"}, 0, 1},
		{[]string{"quarantine", "list"}, 0, 1},
	} {
		in := strings.NewReader(strings.Repeat(line, 100))
		if code := runOnNode(node, c.args, in, goneReader{syscall.EPIPE}, io.Discard, noEnv); code != c.gone {
			t.Errorf("%v into a closed pipe: code %d, want %d", c.args, code, c.gone)
		}
		in = strings.NewReader(strings.Repeat(line, 100))
		if code := runOnNode(node, c.args, in, goneReader{syscall.ENOSPC}, io.Discard, noEnv); code != c.failed {
			t.Errorf("%v onto a full disk: code %d, want %d", c.args, code, c.failed)
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, ok := range map[string]bool{"yes\n": true, "yes": true, "y\n": false, "\n": false, "": false, "YES\n": false, "no\nyes\n": false} {
		var out bytes.Buffer
		err := ask(strings.NewReader(answer), &out, "Remove?")
		if ok != (err == nil) || (!ok && !errors.Is(err, errNotConfirmed)) {
			t.Errorf("%q: %v", answer, err)
		}
		if out.String() != "Remove?\nType yes: " {
			t.Errorf("%q", out.String())
		}
	}
}
