package remove

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hostLocal changes a network's directory like the plugin, under flock(2) on its lock file.
type hostLocal struct {
	dir  string
	lock int
}

func openHostLocal(dir string) (*hostLocal, error) {
	fd, err := unix.Open(dir+"/lock", unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC, 0o750)
	return &hostLocal{dir, fd}, err
}

func flockWait(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// reuse releases the address, as a late DEL does, and reserves it for another container, as the next ADD does.
func (h *hostLocal) reuse(addr, id string) error {
	if err := flockWait(h.lock); err != nil {
		return err
	}
	err := os.Remove(h.dir + "/" + addr)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.WriteFile(h.dir+"/"+addr, []byte(id+"\r\neth0"), 0o600)
	}
	return errors.Join(err, unix.Flock(h.lock, unix.LOCK_UN))
}

// holdHelper is a second process that locks the file and waits to be killed.
func holdHelper(path string) int {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil || flockWait(fd) != nil {
		return 2
	}
	fmt.Println("held")
	for {
		_ = unix.Pause()
	}
}

func startHolder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envHolder+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the helper did not get the lock")
	}
	return cmd
}

// TestCNILockHeld checks that a lock that is never released is awaited once, and that files that need no lock, or
// another one, are removed.
func TestCNILockHeld(t *testing.T) {
	for _, held := range []string{"lock", "."} {
		t.Run(held, func(t *testing.T) {
			x := newCNI(t, false)
			files := []cni.File{x.address(1, "10.0.0.7"), x.address(2, "10.0.0.8"), x.cache(1)}
			other := x.address(3, "10.0.0.9")
			x.Mkdir(x.cni + "/networks/other")
			x.Must(os.Rename(x.network+"/10.0.0.9", x.cni+"/networks/other/10.0.0.9"))
			other = x.read(other.Kind, x.cni+"/networks/other", "10.0.0.9")
			x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
			holder := startHolder(t, x.network+"/"+held)
			waits := 0
			x.r.guards.before = testkit.Outside(func(op, name string) {
				if op == "openat" && name == "lock" {
					waits++
				}
			})
			got := x.take(append(files, other)...)
			ended(t, got[:2], policy.Refused, "is locked by another process")
			ended(t, got[2:], policy.Done)
			testkit.There(t, x.network+"/10.0.0.7", true)
			if waits > 2 {
				t.Errorf("the lock file was opened %d times", waits)
			}
			ended(t, x.restore(files[0]), policy.Refused, "is locked by another process")
			x.Must(holder.Process.Kill())
			_ = holder.Wait()
			ended(t, x.take(files[:2]...), policy.Done)
		})
	}
}

// TestCNILockHeldForManyBatches checks that a lock that is never released is awaited by the first batch only, until
// it was acquired again.
func TestCNILockHeldForManyBatches(t *testing.T) {
	x := newCNI(t, false)
	a := x.address(1, "10.0.0.7")
	x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
	h, err := openHostLocal(x.network)
	x.Must(err)
	defer beneath.Close(h.lock)
	x.Must(flockWait(h.lock))
	ended(t, x.take(a), policy.Refused, "is locked by another process")
	x.r.lockWait *= 1_000_000 // two days: a batch that waited now would never return
	for range 3 {
		ended(t, x.take(a), policy.Refused, "is locked by another process")
	}
	flockEnd(h.lock)
	ended(t, x.take(a), policy.Done)
	if len(x.r.timedOut) != 0 {
		t.Errorf("the lock was acquired, and %v still count as held", x.r.timedOut)
	}
}

// TestCNILockFile checks which kinds of lock file are accepted.
func TestCNILockFile(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		// The plugin makes it; without it no other process would be excluded.
		x := newCNI(t, false)
		ended(t, x.take(x.address(1, "10.0.0.7")), policy.Done)
		info, err := os.Stat(x.network + "/lock")
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&^0o750 != 0 || info.Size() != 0 {
			t.Error(info, err)
		}
	})
	for name, put := range map[string]func(x *cniTree, at string){
		"a symlink":   func(x *cniTree, at string) { x.Must(os.Symlink(x.Outside+"/new", at)) },
		"a directory": func(x *cniTree, at string) { x.Mkdir(at) },
		"a FIFO":      func(x *cniTree, at string) { x.Must(unix.Mkfifo(at, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newCNI(t, false)
			c := x.address(1, "10.0.0.7")
			put(x, x.network+"/lock")
			out := x.take(c)
			if out[0].Result == policy.Done || !strings.Contains(out[0].Err, "lock") {
				t.Errorf("%+v", out[0])
			}
			testkit.There(t, x.network+"/10.0.0.7", true)
			testkit.There(t, x.Outside+"/new", false)
		})
	}
	t.Run("replaced", func(t *testing.T) {
		// The next process locks the file with the name, so that one must be locked here.
		x := newCNI(t, false)
		a, b := x.address(1, "10.0.0.7"), x.address(2, "10.0.0.8")
		x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
		first := true
		x.r.guards.before = testkit.Outside(func(op, name string) {
			if op != "unlinkat" {
				return
			}
			fd, err := unix.Open(x.network+"/lock", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			x.Must(err)
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("after the removal of %s the lock is free: %v", name, err)
			}
			x.Must(unix.Close(fd))
			if first {
				first = false
				x.Must(os.Remove(x.network + "/lock"))
				x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
			}
		})
		ended(t, x.take(a, b), policy.Done)
	})
}

// TestCNILockSaves runs a late DEL and an ADD between the last check and the removal. The lock keeps the new
// reservation; without it the reservation is lost.
func TestCNILockSaves(t *testing.T) {
	for _, locks := range []bool{true, false} {
		t.Run(fmt.Sprint(locks), func(t *testing.T) {
			x := newCNI(t, false)
			x.r.guards.locks = locks
			c := x.address(1, "10.0.0.1")
			h, err := openHostLocal(x.network)
			x.Must(err)
			defer beneath.Close(h.lock)
			done := make(chan error, 1)
			plugin := func() { done <- h.reuse("10.0.0.1", containerID(2)) }
			x.r.guards.before = testkit.Outside(func(op, _ string) {
				switch {
				case op != "unlinkat":
				case locks:
					if err := unix.Flock(h.lock, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
						t.Errorf("the plugin got the lock: %v", err)
					}
					go plugin()
				default:
					plugin()
				}
			})
			ended(t, x.take(c), policy.Done)
			x.Must(<-done)
			testkit.There(t, x.network+"/10.0.0.1", locks)
		})
	}
}
