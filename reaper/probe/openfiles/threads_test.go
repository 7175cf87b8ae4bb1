package openfiles

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// holderEnv makes a copy of the test binary hold a file in one of the ways below, and wait for
// its input to end.
const holderEnv = "ORPHAN_REAPER_TEST_HOLDER"

// holders hold a file in a way that no descriptor of the process shows. What they return keeps
// it held.
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
	"a file of a ring": func(path string) error {
		_, err := ringWith(path)
		return err
	},
}

// How TestHolder is asked to change its root, and to map its file 3 and close it before.
const (
	anotherRoot     = "another root"
	mapsFromOutside = "another root, and a file from outside of it"
)

// apart runs work on a thread of its own, not the first one, that has left what flags say.
func apart(flags int, work func() error) error {
	done := make(chan error)
	var once func()
	once = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go once() // while this thread is taken
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

// ringWith makes an io_uring, registers the file with it and closes the file.
func ringWith(path string) (ring int, err error) {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return -1, errno
	}
	file, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return -1, err
	}
	defer beneath.Close(file)
	const registerFiles = 2
	files := [...]int32{-1, int32(file)}
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_REGISTER, fd, registerFiles, uintptr(unsafe.Pointer(&files)), uintptr(len(files)), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
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

// TestHolder is what runs in each of these processes; on its own it does nothing.
func TestHolder(t *testing.T) {
	how, path, ok := strings.Cut(os.Getenv(holderEnv), "|")
	if !ok {
		return
	}
	switch how {
	case detachedTree:
		must(t, openTree(path))
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

// TestHeldWithoutDescriptor: what a thread has for itself, and what was registered with a ring
// and closed, is in no listing of the process. With these listings alone the pods would go.
func TestHeldWithoutDescriptor(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	if ring, err := ringWith("/proc/self/exe"); errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		testkit.Skip(t, "this needs io_uring: ", err)
	} else {
		must(t, err)
		beneath.Close(ring)
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
		// The guard off: the descriptors of the processes, as they were read before.
		s := n.scan(uid)
		if _, _, err := s.files(pids[how]); err != nil || s.pods[uid] != "" && how != "a file of a ring" {
			t.Errorf("%s: %v, and the process shows %q by itself", how, err, s.pods[uid])
		}
	}
	n.unused(a, other)
}

// TestRingElsewhere: a ring has only the path of its files. It is followed from the mount
// namespace of the process.
func TestRingElsewhere(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Write(n.PodDir(uid)+"/f", "x")
	n.Write("x/"+string(uid)+"/f", "x")
	n.Write("x/"+string(uid)+"/deleted", "x")
	holder(t, "a file of a ring", n.Path("x/"+string(uid)+"/f"))
	holder(t, "a file of a ring", n.Path("x/"+string(uid)+"/deleted"))
	must(t, os.Remove(n.Path("x/"+string(uid)+"/deleted")))
	n.unused(n.read(), uid)
	n.Write(n.PodDir(uid)+"/deleted", "x")
	holder(t, "a file of a ring", n.Path(n.PodDir(uid)+"/deleted"))
	must(t, os.Remove(n.Path(n.PodDir(uid)+"/deleted")))
	n.want(n.read(), uid, policy.Yes, "")
}

// TestRingBusy: a ring that does not tell its files may hold any.
func TestRingBusy(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.ProcDir = n.Path("proc")
	cases := map[string]struct {
		text string
		err  error
		held bool
	}{
		"none":                {"SqMask:\t1\nUserFiles:\t0\nUserBufs:\t0\n", nil, false},
		"no places are taken": {"SqMask:\t1\nUserFiles:\t2\nUserBufs:\t0\n", nil, false},
		"busy":                {"pos:\t0\nflags:\t02\nmnt_id:\t1\n", errRingBusy, false},
		"old":                 {"pos:\t0\nUserFiles:\t2\n    0: <none>\n    1: f\nUserBufs:\t0\n", nil, false},
		"held":                {"pos:\t0\nUserFiles:\t2\n    0: /x/" + string(uid) + "/f\nUserBufs:\t0\n", nil, true},
		"a buffer, no file":   {"pos:\t0\nUserFiles:\t0\nUserBufs:\t1\n    0: /x/" + string(uid) + "/f\n", nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n.Write("proc/7/fdinfo/3", c.text)
			n.Write(n.PodDir(uid)+"/f", "x")
			s := n.scan(uid)
			if err := s.ring("7", "3"); !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("%v, want %v", err, c.err)
			}
			if held := s.pods[uid]+s.doubts[uid] != ""; held != c.held {
				t.Errorf("held is %v, want %v", held, c.held)
			}
		})
	}
}
