package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// wholeNode is a node in a temporary directory for the real program. Tests and benchmarks start the program only
// through it: with --node-root no path of this machine is used (ownNode).
type wholeNode struct {
	t    testing.TB
	dir  string
	args []string
}

// newWholeNode makes a node without a kubelet and a runtime.
func newWholeNode(tb testing.TB) *wholeNode {
	tb.Helper()
	n := newNode(tb)
	n.mkdir("cgroup/kubepods")
	n.args = append(n.args, "--runtime-endpoint", "none")
	return n
}

// newNode makes a node without --runtime-endpoint.
func newNode(tb testing.TB) *wholeNode {
	tb.Helper()
	n := &wholeNode{t: tb, dir: tb.TempDir()}
	n.mkdir("root/pods")
	n.args = []string{
		"--node-root", n.dir, "--node-namespaces", "self",
		"--root-dir", n.path("root"), "--state-dir", n.path("state"), "--cgroup-root", n.path("cgroup"),
		"--cni-cache-dir", n.path("cni"), "--cni-data-dir", n.path("cni/networks"), "--cni-conf-dir", n.path("net.d"),
		"--hold", "0s", "--confirm", "0s", "--metrics-file", n.path("metrics.prom"), "--log-format", "text",
	}
	// A configuration without any network: all networks are another engine's.
	n.write("net.d/99-loopback.conf", `{"cniVersion":"1.0.0","name":"lo","type":"loopback"}`)
	return n
}

func (n *wholeNode) path(name string) string { return filepath.Join(n.dir, name) }

func (n *wholeNode) mkdir(name string) {
	n.t.Helper()
	testkit.Must(n.t, os.MkdirAll(n.path(name), 0o755))
}

func (n *wholeNode) write(name, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(name))
	testkit.Must(n.t, os.WriteFile(n.path(name), []byte(text), 0o600))
}

func wholeUID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i) }

// pod makes an orphan with the kubelet's own files, and with data a user's file.
func (n *wholeNode) pod(i int, data bool) {
	n.t.Helper()
	pod := "root/pods/" + wholeUID(i) + "/"
	n.write(pod+"etc-hosts", "127.0.0.1 localhost\n")
	n.write(pod+"containers/app/1a2b3c4d", "")
	n.write(pod+"volumes/kubernetes.io~projected/token/..data/token", "secret")
	if data {
		n.write(pod+"volumes/kubernetes.io~nfs/share/file", "data of "+wholeUID(i))
	}
}

// command returns the real program as a process of its own. Only benchmarks run the one of make build: tests set what
// it has no flags for.
func (n *wholeNode) command(args ...string) *exec.Cmd {
	n.t.Helper()
	program := os.Getenv(benchProgramEnv)
	if _, benchmark := n.t.(*testing.B); program == "" || !benchmark {
		var err error
		if program, err = exec.LookPath("orphan-reaper-whole"); err != nil {
			n.t.Fatal(err)
		}
	}
	return bounded(n.t, program, append(args, n.args...)...)
}

// bounded returns a command that is ended after three minutes, and then fails the test: what hangs is to be seen in
// its output, and not in the time limit of all tests. A benchmark may take longer.
func bounded(tb testing.TB, program string, args ...string) *exec.Cmd {
	tb.Helper()
	if _, ok := tb.(*testing.T); !ok {
		return exec.Command(program, args...)
	}
	const limit = 3 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	tb.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return cmd.Process.Kill() // the test has ended
		}
		tb.Errorf("%v did not end within %s", cmd.Args, limit)
		return cmd.Process.Signal(syscall.SIGQUIT) // a Go program prints its stacks
	}
	cmd.WaitDelay = 10 * time.Second // then it is killed
	return cmd
}

// given returns a command as the program prints it on this node, with those of its flags that the command uses.
func (n *wholeNode) given(command string) string {
	n.t.Helper()
	in := config.Input{Given: map[string][]string{}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(flags, in.Given)
	testkit.Must(n.t, flags.Parse(n.args))
	return command + " " + in.CommandLine()
}

// outputOf runs a command to its end.
func outputOf(tb testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	tb.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		tb.Fatalf("%v: %v", cmd.Args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// run runs the program to its end and returns its output and exit code.
func (n *wholeNode) run(args ...string) (stdout string, code int) {
	n.t.Helper()
	stdout, _, code = outputOf(n.t, n.command(args...))
	return stdout, code
}

// printed runs the program and returns all of its output and its exit code.
func (n *wholeNode) printed(args ...string) (text string, code int) {
	n.t.Helper()
	out, errs, code := outputOf(n.t, n.command(args...))
	return out + errs, code
}

// outcomes parses the JSON of a sweep.
func (n *wholeNode) outcomes(stdout string) map[string]string {
	n.t.Helper()
	var view struct {
		Pods []struct{ UID, Outcome string } `json:"pods"`
	}
	if err := json.Unmarshal([]byte(stdout), &view); err != nil {
		n.t.Fatalf("%v in %s", err, stdout)
	}
	got := map[string]string{}
	for _, p := range view.Pods {
		got[p.UID] = p.Outcome
	}
	return got
}

// TestWholeSweep checks a dry run, a sweep and a restore on a machine without a kubelet.
func TestWholeSweep(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, false)
	n.pod(2, true)
	n.mkdir("root/pods/backup")
	dry, code := n.run("sweep", "--dry-run", "-o", "json")
	if got := n.outcomes(dry); code != 3 || got[wholeUID(1)] != "would-remove" || got[wholeUID(2)] != "would-quarantine" {
		t.Fatalf("dry run: %d, %v", code, got)
	}
	if entries, err := os.ReadDir(n.path("root")); err != nil || len(entries) != 1 {
		t.Fatalf("the dry run left a trace: %v, %v", entries, err)
	}
	out, code := n.run("sweep", "-o", "json")
	got := n.outcomes(out)
	if code != 3 || got[wholeUID(1)] != "removed" || got[wholeUID(2)] != "quarantined" || got[""] != "kept" {
		t.Fatalf("sweep: %d, %v", code, got)
	}
	if _, code := n.run("quarantine", "restore", wholeUID(2)); code != 0 {
		t.Fatalf("restore: %d", code)
	}
	text, err := os.ReadFile(n.path("root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~nfs/share/file"))
	if err != nil || string(text) != "data of "+wholeUID(2) {
		t.Fatalf("restored: %q, %v", text, err)
	}
	out, _ = n.run("sweep", "-o", "json")
	if got := n.outcomes(out); got[wholeUID(2)] != "kept" {
		t.Errorf("after restore: %v", got)
	}
	if _, err := os.Stat(n.path("metrics.prom")); err != nil {
		t.Error(err)
	}
}

// TestWholeNamed checks a sweep of one pod, the first on its node, and that the restore of a pod whose directory was
// made again and is not in use succeeds and keeps the newer one.
func TestWholeNamed(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.pod(2, true)
	if out, code := n.run("sweep", "-o", "json", wholeUID(1)); code != 0 || n.outcomes(out)[wholeUID(1)] != "quarantined" {
		t.Fatalf("sweep of one pod: %d, %s", code, out)
	}
	if _, err := os.Stat(n.path("root/pods/" + wholeUID(2))); err != nil {
		t.Fatalf("the other pod: %v", err)
	}
	n.mkdir("root/pods/" + wholeUID(1) + "/volumes")
	out, code := n.printed("quarantine", "restore", "--verbose", wholeUID(1))
	if code != 0 || !strings.Contains(out, ".conflict") || !strings.Contains(out, "orphan-reaper: putting the directory back: ") {
		t.Fatalf("restore: %d, %s", code, out)
	}
	if _, err := os.Stat(n.path("root/pods/" + wholeUID(1) + "/volumes/kubernetes.io~nfs/share/file")); err != nil {
		t.Error(err)
	}
	if newer, err := filepath.Glob(n.path("root/orphan-reaper/*.conflict/volumes")); err != nil || len(newer) != 1 {
		t.Errorf("the newer directory: %v, %v", newer, err)
	}
}

// TestWholeKilled kills the program repeatedly at random times and lets the last run finish: no data is lost, and
// ledger and disk agree (law 6).
func TestWholeKilled(t *testing.T) {
	n := newWholeNode(t)
	const pods = 300
	for i := range pods {
		n.pod(i, i%3 == 0)
	}
	kills := 0
	for range 40 {
		cmd := n.command("sweep")
		testkit.Must(t, cmd.Start())
		time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
		if cmd.Process.Kill() == nil {
			kills++
		}
		_ = cmd.Wait() // killed or finished
	}
	if out, code := n.run("sweep"); code == 1 {
		t.Fatalf("after %d kills: %s", kills, out)
	}
	n.checkAgrees(pods)
}

// checkAgrees checks that each pod's data is where the ledger has it, and that pods without data are gone.
func (n *wholeNode) checkAgrees(pods int) {
	n.t.Helper()
	store, err := state.OpenReadOnly(n.path("state"), state.Options{})
	testkit.Must(n.t, err)
	entries := map[string]*policy.EntryState{}
	for _, e := range store.Entries() {
		if e.Phase != policy.PhaseGone {
			entries[string(e.UID)] = e
		}
	}
	var manifests []string
	left, err := os.ReadDir(n.path("root/orphan-reaper"))
	testkit.Must(n.t, err)
	for _, e := range left {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			manifests = append(manifests, name)
		}
	}
	for i := range pods {
		uid := wholeUID(i)
		e := entries[uid]
		switch {
		case i%3 != 0 && e == nil:
			if _, err := os.Lstat(n.path("root/pods/" + uid)); !errors.Is(err, os.ErrNotExist) {
				n.t.Errorf("%s still exists: %v", uid, err)
			}
		case i%3 != 0 || e == nil || e.Phase != policy.PhaseConfirmed:
			n.t.Errorf("%s with data=%t: the ledger has %+v", uid, i%3 == 0, e)
		default:
			text, err := os.ReadFile(filepath.Join(n.path("root/orphan-reaper"), e.Entry, "volumes/kubernetes.io~nfs/share/file"))
			if err != nil || string(text) != "data of "+uid {
				n.t.Errorf("%s has lost its data: %q, %v", uid, text, err)
			}
			if !slices.Contains(manifests, e.Entry) {
				n.t.Errorf("%s has no manifest", e.Entry)
			}
		}
	}
	if len(left) != 2*len(entries) {
		n.t.Errorf("%d names in quarantine for %d entries", len(left), len(entries))
	}
}

// background is a program that runs beside the test: the daemon, or a sweep that waits.
type background struct {
	cmd *exec.Cmd
	t   testing.TB
	log string
}

// start starts a command, which ends with the test at the latest.
func (n *wholeNode) start(cmd *exec.Cmd) *background {
	n.t.Helper()
	log, err := os.CreateTemp(n.t.TempDir(), "stderr")
	testkit.Must(n.t, err)
	defer closeFile(log)
	cmd.Stderr = log
	testkit.Must(n.t, cmd.Start())
	b := &background{cmd, n.t, log.Name()}
	n.t.Cleanup(func() { b.end() })
	return b
}

// printed returns its stderr so far.
func (b *background) printed() string {
	b.t.Helper()
	text, err := os.ReadFile(b.log)
	testkit.Must(b.t, err)
	return string(text)
}

// waitFor waits until its stderr contains the words.
func (b *background) waitFor(words string) {
	b.t.Helper()
	until(b.t, words, func() bool { return strings.Contains(b.printed(), words) })
}

// end sends SIGTERM and returns the exit code.
func (b *background) end() int { return b.endBy(syscall.SIGTERM) }

// endBy sends one signal, since a second one kills a command that is ending, and returns the exit code.
func (b *background) endBy(signal syscall.Signal) int {
	b.t.Helper()
	if b.cmd.ProcessState == nil {
		_ = b.cmd.Process.Signal(signal)                                              // it may have ended before
		defer time.AfterFunc(time.Minute, func() { _ = b.cmd.Process.Kill() }).Stop() // in case it hangs
		_ = b.cmd.Wait()                                                              // the exit code is returned
	}
	return b.cmd.ProcessState.ExitCode()
}

// until waits for a condition, and fails the test if it does not become true.
func until(tb testing.TB, what string, come func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !come(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("timeout:  ", what)
		}
	}
}

// appears waits until the program has written a file with content.
func (n *wholeNode) appears(name string) {
	n.t.Helper()
	until(n.t, name, func() bool {
		info, err := os.Stat(n.path(name))
		return err == nil && info.Size() > 1
	})
}

// TestSweepInterrupted checks that the first SIGTERM ends a waiting sweep with exit code 1.
func TestSweepInterrupted(t *testing.T) {
	testkit.NeedProcesses(t)
	n := newWholeNode(t)
	n.pod(1, false)
	n.args = append(n.args, "--hold", "1h", "--confirm", "1h")
	sweep := n.start(n.command("sweep"))
	sweep.waitFor("Waiting with ")
	if code := sweep.end(); code != 1 || !strings.Contains(sweep.printed(), "orphan-reaper: error: interrupted\n") ||
		!strings.Contains(sweep.printed(), "hint: what it has moved stays in quarantine, and the next sweep goes on with it: orphan-reaper quarantine list") {
		t.Errorf("exit code %d: %s", code, sweep.printed())
	}
}

// TestInterruptedWhileItHangs checks that one SIGTERM ends a command that changes nothing and hangs in a file system.
func TestInterruptedWhileItHangs(t *testing.T) {
	a := &cli{abandoned: make(chan struct{})}
	ctx := a.catchSignals(t.Context())
	testkit.Must(t, unix.Kill(os.Getpid(), unix.SIGTERM))
	<-ctx.Done()
	if abandoned, _ := a.await(func() error { select {} }); !abandoned {
		t.Error("the command has ended")
	}
}
