package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// process starts a process with these arguments and those of a node of its own. It ends with the test.
func process(t *testing.T, args ...string) (pid string) {
	t.Helper()
	return processIn(t, "", args...)
}

// processIn is process with a working directory of its own.
func processIn(t *testing.T, dir string, args ...string) (pid string) {
	t.Helper()
	path, err := exec.LookPath("kubelet") // the tests' own, which does nothing
	testkit.Must(t, err)
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	cmd := exec.Command(path, append(args, nodeFlags(node)...)...)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	testkit.Must(t, err)
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// TestConfigCheckAs: a reload is checked with the daemon's own file and flags, and not with others.
func TestConfigCheckAs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("mode: observe\n")
	daemon := process(t, "run", "--config", file, "--hold", "7m")
	code, out, said := call(t, "config", "check", "--as", daemon)
	if code != 0 || !strings.Contains(out, "good: "+file) || !strings.Contains(out, "A daemon that starts now changes nothing (mode observe)") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	write("mode: enforce\n")
	if code, out, said := call(t, "config", "check", "--as", daemon); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "(hold_reported 1m, hold 7m)") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	write("mode: observe\nhold: soon\n")
	code, out, said = call(t, "config", "check", "--as", daemon)
	if code != exit.UsageCode || out != "" || !strings.Contains(said, file+":2") {
		t.Errorf("a wrong file: exit code %d: %s%s", code, out, said)
	}
	// Good by its file alone, wrong with the daemon's flags.
	write("confirm: 5m\n")
	contradicted := process(t, "run", "--config", file, "--confirm", "0s")
	if code, out, said := call(t, "config", "check", "--as", contradicted); code != exit.UsageCode || !strings.Contains(said, "--confirm") {
		t.Errorf("a contradiction: exit code %d: %s%s", code, out, said)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--as", process(t, "scan")}, exit.FailedCode},
		{[]string{"--as", "0"}, exit.FailedCode},
		{[]string{"--as", daemon, "--hold", "1m"}, exit.UsageCode},
		{[]string{"--as", daemon, "--config", file}, exit.UsageCode},
		{[]string{"--as", "me"}, exit.UsageCode},
	} {
		if code, out, said := call(t, append([]string{"config", "check"}, c.args...)...); code != c.code || said == "" || out != "" {
			t.Errorf("%q: exit code %d, want %d: %s%s", c.args, code, c.code, out, said)
		}
	}
}

// TestConfigCheckAsRelative: relative paths of the daemon begin in its working directory, not in that of
// dpkg or rpm. Where it cannot be told, that is no wrong configuration.
func TestConfigCheckAsRelative(t *testing.T) {
	theirs := filepath.Join(t.TempDir(), "theirs")
	write := func(dir, text string) {
		t.Helper()
		testkit.Must(t, os.MkdirAll(dir, 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600))
	}
	write(theirs, "mode: observe\n")
	daemon := processIn(t, theirs, "run", "--config", "config.yaml", "--state-dir", "state")
	other := processIn(t, theirs, "run", "--state-dir", "state")
	absolute := processIn(t, theirs, "run", "--config", filepath.Join(theirs, "config.yaml"))
	check := func(what, pid string, want int, words string) {
		t.Helper()
		if code, out, said := call(t, "config", "check", "--as", pid); code != want || !strings.Contains(out+said, words) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", what, code, want, words, out, said)
		}
	}
	check("here is none", daemon, 0, "good: "+theirs+"/config.yaml")
	ours := t.TempDir()
	t.Chdir(ours)
	write(ours, "hold: soon\n")
	check("a wrong one is here", daemon, 0, "good: "+theirs+"/config.yaml")
	write(theirs, "quarantine_dir: "+theirs+"\n")
	check("the daemon's state directory is in the quarantine", daemon, exit.UsageCode, theirs+"/state")
	write(theirs, "hold: soon\n")
	testkit.Must(t, os.Rename(theirs, theirs+".old"))
	check("moved with the daemon", daemon, exit.UsageCode, theirs+".old/config.yaml")
	testkit.Must(t, os.RemoveAll(theirs+".old"))
	write(theirs, "mode: observe\n") // at the same path, and not the daemon's
	check("the directory is gone", daemon, exit.FailedCode, "working directory of PID "+daemon)
	check("the directory is gone, and a flag begins in it", other, exit.FailedCode, "working directory of PID "+other)
	check("the directory is gone, and nothing begins in it", absolute, 0, "good: "+theirs)
}
