package openfiles

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// holderEnv makes a copy of the test binary hold a file in one of the ways below and wait for the end of its input.
const holderEnv = "ORPHAN_REAPER_TEST_HOLDER"

// holders hold a file in a way that no descriptor of the process shows. Their result keeps it held.
var holders = map[string]func(path string) error{
	"a thread's descriptor": func(path string) error {
		return apart(unix.CLONE_FILES, func() error {
			_, err := unix.Open(path, unix.O_RDONLY, 0)
			return err
		})
	},
	"a thread's root": func(path string) error {
		return apart(unix.CLONE_FS, func() error { return unix.Chroot(path) })
	},
	"a mapped file": mapFile,
}

// These arguments make TestHolder change its root, and map its file 3 and close it.
const (
	anotherRoot     = "another root"
	mapsFromOutside = "another root, and a file from outside of it"
)

// apart runs work on a thread other than the first one that has unshared what the flags select.
func apart(flags int, work func() error) error {
	done := make(chan error)
	var once func()
	once = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go once() // while this thread is busy
			select {}
		}
		err := unix.Unshare(flags)
		if err == nil {
			err = work()
		}
		done <- err
		select {}
	}
	go once()
	return <-done
}

// mapFile maps a file and closes it.
func mapFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	_, err = unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// TestHolder runs in each of these processes; in a normal test run it does nothing.
func TestHolder(t *testing.T) {
	how, path, ok := strings.Cut(os.Getenv(holderEnv), "|")
	if !ok {
		return
	}
	switch how {
	case mapsFromOutside:
		must(t, mapFile("/proc/self/fd/3"))
		must(t, unix.Close(3))
		must(t, unix.Chroot(path))
	case anotherRoot:
		must(t, unix.Chroot(path))
	default:
		must(t, holders[how](path))
	}
	testkit.WaitToEnd()
}

func holder(t *testing.T, how, path string) int {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestHolder$")
	cmd.Env = append(os.Environ(), holderEnv+"="+how+"|"+path)
	testkit.UntilReady(t, cmd)
	return cmd.Process.Pid
}

// TestHeldWithoutDescriptor checks files held by a single thread, or mapped and closed, which the process's own
// listings do not show. By these listings alone the pods would be removed.
func TestHeldWithoutDescriptor(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n, other := newNode(t), newUID()
	n.Mkdir(n.PodDir(other))
	held, pids := map[string]parsers.PodUID{}, map[string]string{}
	for how := range holders {
		uid := newUID()
		file := n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/d/a b\\"
		if how == "a thread's root" {
			n.Mkdir(file)
		} else {
			n.Write(file, "x")
		}
		held[how], pids[how] = uid, strconv.Itoa(holder(t, how, n.Path(file)))
	}
	a := n.read()
	for how, uid := range held {
		n.want(a, uid, policy.Yes, "PID "+pids[how])
		// Without the guard: only the descriptors of the processes are read.
		s := n.scan(uid)
		_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) {
			if p.PID != pids[how] {
				return false, nil
			}
			_, _, err := s.files(p, p.PID)
			return false, err
		}, func(p *procfs.Process, why error) { t.Error(p.PID, why) })
		if must(t, err); s.pods[uid] != "" {
			t.Errorf("%s: the process's own listing shows %q", how, s.pods[uid])
		}
	}
	n.unused(a, other)
}
