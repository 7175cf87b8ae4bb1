package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// trace returns everything visible of a tree: names, kinds, owners, sizes and times of change.
func trace(tb testing.TB, dir string) string {
	tb.Helper()
	var b strings.Builder
	testkit.Must(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), st.Uid, st.Ino, st.Mtim, st.Ctim)
		return nil
	}))
	return b.String()
}

// doctorNode is a node whose log reports an orphan, with times in ISO 8601.
func doctorNode(t *testing.T) *wholeNode {
	t.Helper()
	n := newWholeNode(t)
	n.pod(1, false)
	n.pod(2, false)
	var log strings.Builder
	for i := range 90 { // one per minute for an hour and a half
		at := time.Now().Add(-time.Duration(i) * time.Minute)
		fmt.Fprintf(&log, "%s node1 kubelet[812]: E%s     812 kubelet_volumes.go:154] orphaned pod %q found, but volume paths are still present on disk : "+
			"There were a total of 2 errors similar to this. Turn up verbosity to see them.\n",
			at.Format("2006-01-02T15:04:05.000000-07:00"), at.Format("0102 15:04:05.000000"), wholeUID(1))
	}
	n.write("log/messages", log.String())
	n.args = append(n.args, "--log-source", "file", "--log-file", n.path("log/messages"))
	return n
}

// doctorView is the part of doctor's JSON that the tests read.
type doctorView struct {
	Complaints struct {
		Lines    int    `json:"lines"`
		LastHour int    `json:"last_hour"`
		Message  string `json:"message"`
		Sources  []struct {
			Name string `json:"name"`
			Read bool   `json:"read"`
		} `json:"sources"`
	} `json:"complaints"`
	Pods []struct {
		UID, Fate string
		Lines     int
	} `json:"pods"`
	Daemon struct {
		Runs, Mode string
		PID        int
	} `json:"daemon"`
	Todo []struct{ Commands []string } `json:"todo"`
}

func (n *wholeNode) doctor(wantCode int) (v doctorView) {
	n.t.Helper()
	out, code := n.run("doctor", "-o", "json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != wantCode {
		n.t.Fatalf("code %d, want %d: %v\n%s", code, wantCode, err, out)
	}
	return v
}

// TestWholeDoctor checks the real program on a node without any setup: it shows the log's messages and which pods may
// be removed and how, and leaves no trace: no state directory, lock, checkpoint or metrics.
func TestWholeDoctor(t *testing.T) {
	t.Parallel() // waits for seconds
	n := doctorNode(t)
	n.write("root/pods/"+wholeUID(2)+"/volumes/kubernetes.io~empty-dir/cache/file", strings.Repeat("x", 300<<10))
	before := trace(t, n.dir)
	v := n.doctor(3)
	if after := trace(t, n.dir); after != before {
		t.Errorf("doctor left a trace:\n%s\nbefore\n%s", after, before)
	}
	c := v.Complaints
	if c.Lines != 90 || c.LastHour < 58 || c.LastHour > 61 || len(c.Sources) != 1 || !c.Sources[0].Read ||
		c.Message != `orphaned pod "`+wholeUID(1)+`" found, but volume paths are still present on disk` {
		t.Errorf("%+v", c)
	}
	if len(v.Pods) != 2 || v.Pods[0].UID != wholeUID(1) || v.Pods[0].Fate != "goes" || v.Pods[0].Lines != 90 || v.Pods[1].Fate != "goes" {
		t.Errorf("%+v", v.Pods)
	}
	if v.Daemon.Runs != "no" || len(v.Todo) != 1 || v.Todo[0].Commands[0] != n.given("orphan-reaper sweep") {
		t.Errorf("%+v", v)
	}
	out, _ := n.run("doctor")
	fits(t, "doctor", out)
	if n := strings.Count(out, "\n"); n > 24 || strings.Contains(out, "\x1b") {
		t.Errorf("%d lines\n%s", n, out)
	}
	// Its advice works: after that command nothing is left to report.
	if _, code := n.run("sweep"); code != 0 {
		t.Fatalf("sweep: %d", code)
	}
	if v = n.doctor(0); len(v.Pods) != 1 || v.Pods[0].Fate != "gone" {
		t.Errorf("after the sweep: %+v", v.Pods)
	}
	// The content of an emptyDir is the exception: it is removed later, and the command keeps it.
	out, _ = n.run("doctor")
	_, command, _ := strings.Cut(out, " To keep it:\n    ")
	command, _, _ = strings.Cut(command, "\n")
	// If this machine's disk is nearly full, the retention is ten minutes.
	words := strings.Join(strings.Fields(out), " ")
	after := regexp.MustCompile(`1 pod's emptyDir \(30\d KiB\) is permanently removed in (23h59m|9m), if a daemon or a sweep enforces\. To`)
	if command != n.given("orphan-reaper quarantine restore "+wholeUID(2)) || !after.MatchString(words) ||
		!strings.Contains(out, "1 pod that it named is gone, or in quarantine.") {
		t.Fatalf("%q in %s", command, out)
	}
	if printed, code := n.run(strings.Fields(command)[1:]...); code != 0 {
		t.Errorf("%s: %d, %s", command, code, printed)
	}
	if _, err := os.Stat(n.path("root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~empty-dir/cache/file")); err != nil {
		t.Error(err)
	}
}

// TestWholeDoctorDaemon checks that a running daemon is detected by its lock, with its mode.
func TestWholeDoctorDaemon(t *testing.T) {
	t.Parallel() // waits for seconds
	n := doctorNode(t)
	cmd := n.start(n.command("run", "--mode", "observe")).cmd
	n.appears("state/run.lock")
	v := n.doctor(3)
	if v.Daemon.Runs != "yes" || v.Daemon.PID != cmd.Process.Pid || v.Daemon.Mode != "observe" || v.Pods[0].Fate != "stopped" {
		t.Errorf("%+v", v)
	}
}

// TestWholeDoctorSweep checks that a sweep that holds the daemon's lock does not count as a daemon: after its end
// removal needs the operator.
func TestWholeDoctorSweep(t *testing.T) {
	t.Parallel() // waits for seconds
	n := doctorNode(t)
	n.args = append(n.args, "--hold", "1h", "--confirm", "1h")
	cmd := n.start(n.command("sweep")).cmd
	n.appears("state/run.lock")
	v := n.doctor(3)
	if v.Daemon.Runs != "no" || v.Daemon.PID != cmd.Process.Pid || v.Pods[0].Fate != "goes" || len(v.Todo) != 1 ||
		v.Todo[0].Commands[0] != n.given("orphan-reaper doctor") {
		t.Errorf("%+v", v)
	}
	if printed, code := n.printed("sweep"); code != 1 || !strings.Contains(printed, "hint: a sweep is at work, and ends by itself: try again then") {
		t.Errorf("second sweep: %d, %s", code, printed)
	}
}

// TestWholeDoctorUser: without root the log is shown, and the parts that need root are listed.
//
// Alone: root without CAP_SYS_PTRACE cannot read the other user's process, nor then this one, since the kernel
// makes a process unreadable when its child changes users before it executes.
func TestWholeDoctorUser(t *testing.T) {
	defer func() { testkit.Must(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) }()
	n := doctorNode(t)
	if os.Geteuid() == 0 {
		// Another user, who may read the node's directory and its log.
		for dir := n.path("log"); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			testkit.Must(t, os.Chmod(dir, 0o755))
		}
		testkit.Must(t, os.Chmod(n.path("log/messages"), 0o644))
	}
	testkit.Must(t, os.Chmod(n.path("root/pods"), 0))
	defer func() { testkit.Must(t, os.Chmod(n.path("root/pods"), 0o700)) }()
	cmd := n.command("doctor")
	if os.Geteuid() == 0 {
		program, err := os.ReadFile(cmd.Path)
		testkit.Must(t, err)
		cmd.Path = n.path(filepath.Base(cmd.Path)) // at a path that this user may execute
		testkit.Must(t, os.WriteFile(cmd.Path, program, 0o755))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "volume paths") || !strings.Contains(string(out), "sudo orphan-reaper") ||
		!strings.Contains(string(out), "permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
}
