// The demo shows the real orphan-reaper at work, without root, on a node made for it: make
// demo.
//
// run.sh starts it in namespaces of its own. It mounts a tmpfs on a temporary directory
// there, and makes in it a kubelet's root directory with six kinds of entries: an orphan that may
// be removed, one with a user's data, one with a volume still mounted, two pods that live, and a
// name that is no pod's. A process named kubelet writes recorded lines of a real one with its
// own PID and fresh times, a small runtime (package fakecri) answers on a CRI socket. So the
// daemon reads the log, finds the kubelet by the PID in it, asks the
// runtime, reads the mounts of all namespaces, parks, confirms and removes.
//
// At the end each claim is checked on disk; the exit code is 0 only if all hold, so it is the smoke
// test of CI, too.
//
// It lies in testdata, which ./... leaves out, so that it is no part of what is built,
// tested and shipped; go vet ./testdata/demo checks it. Unlike the rooms it may mount and
// remove files: in its own namespace and its own temporary directory.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	case len(os.Args) == 3:
		err = run(os.Args[1], os.Args[2])
	default:
		err = errors.New("usage: sh testdata/demo/run.sh PATH-OF-ORPHAN-REAPER")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run shows the demo on a node in dir. DEMO_REFUSED is why there are no namespaces for it.
func run(dir, binary string) error {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w; make build builds it", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case <-stop:
		case <-time.After(limit):
		}
		fmt.Fprintln(os.Stderr, "demo: stopped")
		os.Exit(1) // the children end with this process
	}()
	refused := os.Getenv("DEMO_REFUSED")
	n := &node{dir: dir, plain: refused != ""}
	if !n.plain {
		if err := errors.Join(
			unix.Sethostname([]byte("node-1")),
			unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64m"),
		); err != nil {
			return fmt.Errorf("cannot make the node: %w", err)
		}
	}
	d := &demo{node: n, teller: newTeller(os.Stdout), refused: refused}
	defer d.end()
	return d.story(binary)
}

// mountBind mounts a volume into a pod and makes the mount point, as a CSI driver does.
func mountBind(volume, target string) error {
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(volume, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount a volume: %w", err)
	}
	return nil
}
