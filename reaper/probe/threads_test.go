package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// threadEnv makes a copy of the test binary run a thread that binds SOURCE on TARGET in a mount namespace of its own,
// or works in SOURCE if TARGET is "". Then it waits for the end of its input.
const threadEnv = "ORPHAN_REAPER_TEST_THREAD"

// init locks the goroutine to the process's first thread, which can end only there.
func init() { // see above
	what, first, ok := strings.Cut(os.Getenv(threadEnv), "|")
	if !ok {
		return
	}
	source, target, _ := strings.Cut(what, ">")
	go func() {
		runtime.LockOSThread()
		flags := unix.CLONE_FS
		if target != "" {
			flags |= unix.CLONE_NEWNS
		}
		err := unix.Unshare(flags)
		if err == nil && target == "" {
			err = unix.Chdir(source)
		}
		if err == nil && target != "" {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), unix.Mount(source, target, "", unix.MS_BIND, ""))
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if first == "ends" {
			for b := []byte(nil); !strings.Contains(string(b), "Z (zombie)"); {
				b, _ = os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getpid()))
			}
		}
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	if first == "ends" {
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
	select {}
}

func threaded(t *testing.T, source, target, first string) int {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), threadEnv+"="+source+">"+target+"|"+first)
	testkit.UntilReady(t, cmd)
	return cmd.Process.Pid
}

// TestThreads checks that a thread's own mount namespace and working directory are read, which the process does not
// show, and that a process is read whose first thread has ended.
func TestThreads(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for _, first := range []string{"lives", "ends"} {
		t.Run("first "+first, func(t *testing.T) {
			n, bound, worked, other := newNode(t), newUID(), newUID(), newUID()
			n.Mkdir("target", n.PodDir(bound)+"/volumes/kubernetes.io~empty-dir/d", n.PodDir(worked), n.PodDir(other))
			pid := threaded(t, n.Path(n.PodDir(bound)), n.Path("target"), first)
			_ = threaded(t, n.Path(n.PodDir(worked)), "", first)
			look := n.look()
			e := find(t, look, bound)
			check(t, e, but(facts{policy.FactMounted: policy.Yes}))
			wantDetail(t, e.Facts[policy.FactMounted], fmt.Sprintf("in the mount namespace of PID %d/task/", pid))
			check(t, find(t, look, worked), but(facts{policy.FactInUse: policy.Yes}))
			check(t, find(t, look, other), dead())
		})
	}
}

// TestChain checks that a chain of processes, each of which starts the next and ends, never hides the namespace that it
// keeps.
func TestChain(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, bound := newNode(t), newUID()
	n.Mkdir("target", n.PodDir(bound))
	n.Write("next", "[ -e '"+n.Path("stop")+"' ] || /bin/sh '"+n.Path("next")+"' &\n")
	child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, n.Base, fmt.Sprintf(
		"mount --bind '%s' '%s'; /bin/sh '%s' </dev/null >/dev/null 2>&1; exec unshare -m sh -c 'umount %s; cd /; echo ready; read -r line'",
		n.Path(n.PodDir(bound)), n.Path("target"), n.Path("next"), n.Path("target")))
	t.Cleanup(func() { n.Write("stop", "") })
	p := n.probe()
	for range 100 {
		if f := p.Mounts(t.Context(), []parsers.PodUID{bound})[bound]; f.Truth == policy.No {
			t.Fatalf("the bind mount was not found: %+v", f)
		}
	}
}
