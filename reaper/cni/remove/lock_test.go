package remove

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hostLocal does what the plugin does to a network's directory, after its documentation and recorded files:
// everything under flock(2) on its lock file; ADD reserves the address after the last one, if O_EXCL succeeds;
// DEL reads all files to find its own.
type hostLocal struct {
	dir  string
	lock int
}

func openHostLocal(dir string) (*hostLocal, error) {
	fd, err := unix.Open(dir+"/lock", unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC, 0o750)
	return &hostLocal{dir, fd}, err
}

func (h *hostLocal) locked(f func() error) error {
	if err := flockWait(h.lock); err != nil {
		return err
	}
	return errors.Join(f(), unix.Flock(h.lock, unix.LOCK_UN))
}

func flockWait(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

var errFull = errors.New("no address is free")

// add reserves one of 10.0.0.1 to 10.0.0.most.
func (h *hostLocal) add(id string, most int) (addr string, err error) {
	err = h.locked(func() error {
		last := 0
		if b, err := os.ReadFile(h.dir + "/last_reserved_ip.0"); err == nil {
			a, err := netip.ParseAddr(string(b))
			if err != nil {
				return err
			}
			last = int(a.As4()[3])
		}
		for i := range most {
			addr = fmt.Sprintf("10.0.0.%d", 1+(last+i)%most)
			f, err := os.OpenFile(h.dir+"/"+addr, os.O_RDWR|os.O_EXCL|os.O_CREATE, 0o600)
			if errors.Is(err, os.ErrExist) {
				continue
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(id + "\r\neth0")
			return errors.Join(err, f.Close(), os.WriteFile(h.dir+"/last_reserved_ip.0", []byte(addr), 0o600))
		}
		return errFull
	})
	return addr, err
}

// del releases the addresses of the ID, and reports whether there were any.
func (h *hostLocal) del(id string) (found bool, err error) {
	err = h.locked(func() error {
		entries, err := os.ReadDir(h.dir)
		for _, e := range entries {
			b, err := os.ReadFile(h.dir + "/" + e.Name())
			if err == nil && strings.TrimSpace(string(b)) == id+"\r\neth0" {
				found = true
				if err := os.Remove(h.dir + "/" + e.Name()); err != nil {
					return err
				}
			}
		}
		return err
	})
	return found, err
}

// pluginHelper is a second process: "hold FILE" locks it and waits to be killed; "stream DIR
// NAME COUNT" is a node on which pods come and go.
func pluginHelper(arg string) int {
	f := strings.Fields(arg)
	if f[0] == "hold" {
		fd, err := unix.Open(f[1], unix.O_RDONLY, 0)
		if err != nil || flockWait(fd) != nil {
			return 2
		}
		fmt.Println("held")
		for {
			_ = unix.Pause()
		}
	}
	n, err := strconv.Atoi(f[3])
	if err != nil {
		return 2
	}
	if err := stream(f[1], f[2], n); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// streamed is how many addresses the range of the stream has.
const streamed = 64

// stream adds and deletes count times and complains of each reservation that it lost. Some
// of its containers are dead from the start: their DEL comes late or never.
func stream(dir, name string, count int) error {
	h, err := openHostLocal(dir)
	if err != nil {
		return err
	}
	var live, dead []string
	at := map[string]string{}
	for i := 0; i < count; {
		id := fmt.Sprintf("%s-%s-%064x", map[bool]string{true: "dead", false: "live"}[rand.IntN(3) == 0], name, i)
		addr, err := h.add(id, streamed)
		switch {
		case errors.Is(err, errFull):
		case err != nil:
			return err
		case id[0] == 'd':
			i++
			dead = append(dead, id)
		default:
			i++
			live, at[id] = append(live, id), addr
		}
		if len(dead) > 0 && rand.IntN(8) == 0 {
			k := rand.IntN(len(dead))
			if _, err := h.del(dead[k]); err != nil {
				return err
			}
			dead[k] = dead[len(dead)-1]
			dead = dead[:len(dead)-1]
		}
		if len(live) > 12 || errors.Is(err, errFull) && len(live) > 0 {
			k := rand.IntN(len(live))
			id := live[k]
			b, rerr := os.ReadFile(dir + "/" + at[id])
			found, err := h.del(id)
			if err != nil {
				return err
			}
			if !found || rerr != nil || !strings.HasPrefix(string(b), id) {
				fmt.Println("lost", id, at[id])
			}
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		}
	}
	fmt.Println("end", count)
	return nil
}

func startPlugin(tb testing.TB, arg string) (*exec.Cmd, *bufio.Scanner) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envPlugin+"="+arg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestCNILockHeld: a lock that another process never gives back is waited for once. What needs no lock, or another one, is removed.
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
			cmd, out := startPlugin(t, "hold "+x.network+"/"+held)
			if !out.Scan() {
				t.Fatal("the helper did not get the lock")
			}
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
			x.Must(cmd.Process.Kill())
			_ = cmd.Wait()
			ended(t, x.take(files[:2]...), policy.Done)
		})
	}
}

// TestCNILockHeldForManyBatches: a lock that is never given back is waited for by the first
// batch and by none after it, until it was had once more.
func TestCNILockHeldForManyBatches(t *testing.T) {
	x := newCNI(t, false)
	a := x.address(1, "10.0.0.7")
	x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
	h, err := openHostLocal(x.network)
	x.Must(err)
	defer beneath.Close(h.lock)
	x.Must(flockWait(h.lock))
	ended(t, x.take(a), policy.Refused, "is locked by another process")
	x.r.lockWait *= 1_000_000 // two days: who waited for it now would never come back
	for range 3 {
		ended(t, x.take(a), policy.Refused, "is locked by another process")
	}
	flockEnd(h.lock)
	ended(t, x.take(a), policy.Done)
	if len(x.r.notHad) != 0 {
		t.Errorf("it was had, and %v are not waited for", x.r.notHad)
	}
}

// TestCNILockFile: which kinds of lock file are accepted.
func TestCNILockFile(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		// The plugin makes it; without it no process would be excluded.
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
		// The next process locks the file that has the name, so we must hold that one.
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
				t.Errorf("%s is removed, and the lock is free: %v", name, err)
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

// TestCNILockSaves: a late DEL and an ADD between the last check and the removal. Under the
// lock the new reservation lives; without it, it is lost.
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
			plugin := func() {
				_, err := h.del(containerID(1))
				if err == nil {
					_, err = h.add(containerID(2), 1)
				}
				done <- err
			}
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

// TestCNIStream: pods come and go, thousands of them, while the addresses of those that
// are dead are removed, and no live one is lost.
func TestCNIStream(t *testing.T) {
	testkit.OnTmpfs(t)
	count := 500
	if testkit.Long() {
		count = 5000
	}
	x := newCNI(t, false)
	x.r.lockWait = lockWait
	lines := make(chan string)
	for _, name := range []string{"a", "b"} {
		cmd, out := startPlugin(t, fmt.Sprintf("stream %s %s %d", x.network, name, count))
		go func() {
			for out.Scan() {
				lines <- out.Text()
			}
			if err := cmd.Wait(); err != nil {
				lines <- err.Error()
			}
			lines <- ""
		}()
	}
	results, words := map[policy.Result]int{}, map[bool]int{}
	for running := 2; running > 0; {
		select {
		case line := <-lines:
			switch {
			case line == "":
				running--
			case !strings.HasPrefix(line, "end"):
				t.Error(line)
			}
			continue
		default:
		}
		var files []cni.File
		entries, err := os.ReadDir(x.network)
		x.Must(err)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "10.") {
				continue
			}
			c, err := readCNI(cni.Address, x.network, e.Name())
			id, _, _ := bytes.Cut(c.Data, []byte("\r"))
			if err != nil || !bytes.HasPrefix(id, []byte("dead-")) {
				continue
			}
			c.Container = string(id)
			files = append(files, c)
		}
		for _, o := range x.r.remove(context.Background(), files) {
			results[o.Result]++
			if o.Result == policy.Refused {
				words[strings.Contains(o.Err, "locked")]++
			}
			if o.Result == policy.Failed {
				t.Errorf("%+v", o)
			}
		}
	}
	t.Logf("%d added beside %v, refused as locked %v", 2*count, results, words)
	if results[policy.Done] < count/100 {
		t.Error("hardly anything was removed")
	}
}
