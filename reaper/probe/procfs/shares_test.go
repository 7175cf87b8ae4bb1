package procfs

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// shared makes a proc directory with users' processes, and the shares of its look.
func shared(t *testing.T, limit time.Duration, users map[string]int) *Shares {
	t.Helper()
	dir := t.TempDir()
	for pid, uid := range users {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, pid), 0o755))
		testkit.Must(t, os.Chown(filepath.Join(dir, pid), uid, uid))
	}
	proc, err := Open(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { beneath.Close(proc) })
	return NewShares(dir, proc, dir+"/cgroup", limit)
}

// TestShares checks that processes that use all their time are read last and exceed their share, for any owner, and
// that all others are read.
func TestShares(t *testing.T) {
	testkit.NeedUsers(t)
	synctest.Test(t, func(t *testing.T) { // a busy machine takes no time
		s := shared(t, 3200*time.Millisecond, map[string]int{"3": 65534, "4": 65534, "5": 65534, "6": 1000, "7": 0, "8": 0, "9": 1001})
		var done []string
		calls, over := map[string]int{}, map[string]error{}
		n, err := s.Each(t.Context(), func(p *Process) (bool, error) {
			if p.PID < "6" { // user 65534
				for p.Over() == nil {
					time.Sleep(time.Millisecond)
				}
				return false, ErrShare
			}
			if calls[p.PID]++; p.PID == "7" && calls["7"] == 1 { // needs more than the small share
				for p.Over() == nil {
					time.Sleep(time.Millisecond)
				}
				return false, ErrShare
			}
			done = append(done, p.PID)
			return false, nil
		}, func(p *Process, err error) { over[p.PID] = err })
		testkit.Must(t, err)
		slices.Sort(done)
		if n != 7 || !slices.Equal(done, []string{"6", "7", "8", "9"}) {
			t.Errorf("%d processes, read %v", n, done)
		}
		for _, pid := range []string{"3", "4", "5"} {
			if !errors.Is(over[pid], ErrShare) {
				t.Errorf("PID %s: over its share %v", pid, over[pid])
			}
		}
		if len(over) != 3 {
			t.Errorf("over their share: %v", over)
		}
	})
}

// TestLookIsOver checks that an owner who had no share, because others used all the time, is a doubt about the node.
func TestLookIsOver(t *testing.T) {
	testkit.NeedUsers(t)
	synctest.Test(t, func(t *testing.T) { // a busy machine takes no time
		users := map[string]int{}
		for i := range 60 {
			users[strconv.Itoa(10+i)] = 2000 + i
		}
		s := shared(t, 320*time.Millisecond, users)
		begun, over := map[string]bool{}, map[string]error{}
		_, err := s.Each(t.Context(), func(p *Process) (bool, error) {
			for begun[p.PID] = true; p.Over() == nil; {
				time.Sleep(time.Millisecond)
			}
			return false, ErrShare
		}, func(p *Process, err error) { over[p.PID] = err })
		testkit.Must(t, err)
		others := 0
		for pid := range users {
			if !begun[pid] {
				others++
			}
			if over[pid] == nil || !begun[pid] && errors.Is(over[pid], ErrShare) {
				t.Errorf("PID %s, started %v: over %v", pid, begun[pid], over[pid])
			}
		}
		if others == 0 || others == len(users) {
			t.Errorf("%d owners had no time", others)
		}
	})
}

// TestHold checks that the memory for one owner is bounded, however many processes it has.
func TestHold(t *testing.T) {
	testkit.NeedUsers(t)
	s := shared(t, time.Minute, map[string]int{"3": 65534, "4": 65534, "5": 1000})
	hold := func(p *Process, n int) (err error) {
		for range n {
			if err = p.Hold(100); err != nil {
				return err
			}
		}
		return nil
	}
	over := map[string]error{}
	_, err := s.Each(t.Context(), func(p *Process) (bool, error) { return false, hold(p, MostHeld*2/3) }, func(p *Process, err error) { over[p.PID] = err })
	testkit.Must(t, err)
	if len(over) != 1 || !errors.Is(cmp.Or(over["3"], over["4"]), ErrShare) {
		t.Errorf("over their share: %v", over)
	}
}

// TestPayer checks which owner a process's time counts for, whatever its name.
func TestPayer(t *testing.T) {
	testkit.NeedUsers(t)
	one := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	proc, err := Open("/proc")
	testkit.Must(t, err)
	defer beneath.Close(proc)
	s := NewShares("/proc", proc, t.TempDir(), time.Minute)
	plain := testkit.Shell(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "/", "")
	made := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	unshare := testkit.NeedCommand(t, "unshare")
	if err := exec.CommandContext(t.Context(), unshare, "-U", "true").Run(); err != nil {
		testkit.Skip(t, "user namespaces are not available: ", err)
	}
	nested := testkit.Shell(t, made, "/", "exec "+unshare+" -Ur "+unshare+" -Ur sh -c 'echo ready; read -r line'")
	mapped := testkit.Shell(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one(100000), GidMappings: one(100000)}, "/", "")
	for pid, want := range map[int]string{os.Getpid(): "user ID 0", plain: "user ID 65534", nested: "user ID 65534"} {
		if got := s.payer(strconv.Itoa(pid)).name; got != want {
			t.Errorf("PID %d: %s, want %s", pid, got, want)
		}
	}
	if got := s.payer(strconv.Itoa(mapped)).name; !strings.HasPrefix(got, "user namespace ") {
		t.Errorf("the payer of root's machine is %s", got)
	}
	if s.Mounts = true; s.payer(strconv.Itoa(plain)).name != root {
		t.Error("a user pays for root's mounts")
	}
}

// jailed starts a process with another root, a mount of the same file system, and returns its PID.
func jailed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Mount(t, "/", dir, "", unix.MS_BIND|unix.MS_REC, "")
	return strconv.Itoa(testkit.Shell(t, &syscall.SysProcAttr{Chroot: dir}, "/", ""))
}
