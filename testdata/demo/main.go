// The demo shows the real orphan-reaper at work, without root, on a node made for it: make
// demo, or go run ./testdata/demo PATH-OF-ORPHAN-REAPER from the top of the repository.
//
// It makes user, mount, PID and UTS namespaces of its own, puts a tmpfs on a temporary directory
// there, and in it a kubelet's root directory with six kinds of entries: an orphan that may
// go, one with a user's data, one with a volume still mounted, two pods that live, and a
// name that is no pod's. A process named kubelet writes recorded lines of a real one with its
// own PID and fresh times, a small runtime (package fakecri) answers on a CRI socket. So the
// daemon walks its whole way: it reads the log, finds the kubelet by the PID in it, asks the
// runtime, reads the mounts of all namespaces, parks, confirms, removes.
//
// At the end each claim is checked on disk; the exit code is 0 only if all hold, so it is the smoke
// test of CI, too. With the namespaces
// everything goes, however the demo ends. Where the kernel allows none it says so and shows what
// can be shown without: nothing is mounted then. REQUIRE_ROOT=1 makes that a failure.
//
// It lies in testdata, which ./... leaves out, so that it is no part of what is built,
// tested and shipped; go vet ./testdata/demo looks at it. Unlike the rooms it may mount and
// remove files: in its own namespace and its own temporary directory.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// limit ends a demo that hangs. It takes about 20 s.
const limit = 2 * time.Minute

func init() {
	// The kernel sends Pdeathsig when the thread ends that started the child (prctl(2)):
	// the main thread lives as long as the process, and main starts all children.
	runtime.LockOSThread()
}

func main() {
	var err error
	switch {
	case filepath.Base(os.Args[0]) == "kubelet":
		err = runKubelet()
	case len(os.Args) == 5 && os.Args[1] == "node":
		err = runNode(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 2:
		err = run(os.Args[1])
	default:
		err = errors.New("usage: go run ./testdata/demo PATH-OF-ORPHAN-REAPER")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run tries the namespaces, best first, and shows the demo in the first that work.
func run(binary string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w; make build builds it", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var refused []string
	for _, s := range stages() {
		err := inStage(ctx, s, binary, strings.Join(refused, "; "))
		refusal := new(refusedError)
		if !errors.As(err, &refusal) {
			return err
		}
		refused = append(refused, s.name+": "+refusal.Error())
	}
	return errors.New(strings.Join(refused, "; "))
}

// stage is one choice of namespaces.
type stage struct {
	name  string
	flags uintptr // 0: none, a plain process
	user  bool
}

// stages lists what can be tried, best first. Root needs no user namespace.
func stages() []stage {
	const own = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS
	all := []stage{
		{name: "mount, PID and UTS namespaces", flags: own},
		{name: "user, mount, PID and UTS namespaces", flags: own | syscall.CLONE_NEWUSER, user: true},
		{name: "a plain process"},
	}
	if os.Geteuid() != 0 {
		return all[1:]
	}
	return all
}

// refusedError says that the kernel does not allow a stage.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// inStage shows the demo in a process of its own and takes its directory away after it.
func inStage(ctx context.Context, s stage, binary, refused string) (err error) {
	dir, err := nodeDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, takeAway(s, dir)) }()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	answer, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }() // only read
	cmd := exec.Command(exe, "node", dir, binary, refused)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{tell}
	// A process group of its own: Ctrl-C comes to us, and we end the whole node with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: s.flags, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if s.user {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.Env = append(os.Environ(), "TZ=UTC")
	if s.flags == 0 {
		cmd.Env = append(cmd.Env, "DEMO_PLAIN=1")
	}
	err = cmd.Start()
	_ = tell.Close() // the node's process has its own
	if err != nil {
		return &refusedError{err.Error()}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			// The kernel kills all of a PID namespace with its first process; a plain
			// process's children have a Pdeathsig.
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	word, _ := bufio.NewReader(answer).ReadString('\n')
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w", ctx.Err())
	case word != ready:
		return &refusedError{strings.TrimSpace(word)}
	case err != nil:
		return fmt.Errorf("not everything went as told: %w", err)
	}
	return nil
}

// nodeDir makes the node's directory. Its name is short, since many paths with it are shown, and
// always of one length, so that lines break alike; /tmp is everywhere.
func nodeDir() (string, error) {
	dir := fmt.Sprintf("/tmp/node-%07d", os.Getpid())
	return dir, os.Mkdir(dir, 0o700)
}

// takeAway removes the node's directory. With a mount namespace there is nothing in it:
// the tmpfs is gone with the namespace. Without, nothing was ever mounted in it.
func takeAway(s stage, dir string) error {
	if s.flags != 0 {
		return os.Remove(dir)
	}
	// The demo's children have been killed and may be about to end: what they still write
	// makes the first try fail.
	var err error
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
