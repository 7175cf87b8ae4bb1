package cni

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alexflint/go-filemutex"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hooked calls before each change, which may panic or change something itself.
type hooked struct {
	kernel

	before func(call, name string)
}

func (h hooked) create(path string) (*os.File, error) {
	h.before("create", path)
	return h.kernel.create(path)
}

func (h hooked) sync(f *os.File) error {
	h.before("sync", f.Name())
	return h.kernel.sync(f)
}

func (h hooked) unlink(dir *fdpath.Dir, name string) error {
	h.before("unlink", name)
	return h.kernel.unlink(dir, name)
}

// TestKilled ends the program before each of its changes. Then the archives have every file that is gone, and the same sweep
// again ends well.
func TestKilled(t *testing.T) {
	for at := 0; ; at++ {
		n := newNode(t)
		files := append(n.leak("one", "10.244.0.7"), n.leak("two", "10.244.0.8")...)
		content := map[string]string{}
		for _, path := range files {
			text, err := os.ReadFile(path)
			must(t, err)
			content[path] = string(text)
		}
		calls, killed := 0, false
		n.changes = hooked{before: func(string, string) {
			if calls == at {
				panic(errors.New("killed"))
			}
			calls++
		}}
		func() {
			defer func() { killed = recover() != nil }()
			n.sweep()
		}()
		for again := range 2 {
			have := n.archived()
			for _, path := range files {
				if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) && have[path] != content[path] {
					t.Fatalf("killed at change %d, again %d: %s is gone and not archived", at, again, path)
				}
			}
			if again == 0 {
				n.changes = kernel{}
				n.sweep()
			}
		}
		n.wantGone(files, files)
		if !killed {
			if at < len(files)+3 { // create, two syncs, and each file
				t.Errorf("the sweep made %d changes of %d files", at, len(files))
			}
			return
		}
	}
}

// TestOrder: the archive is whole when it is synced, it is on disk before the intent, and the intent is in the ledger before
// the first file goes.
func TestOrder(t *testing.T) {
	n := newNode(t)
	files := n.leak("gone", "10.244.0.7")
	var calls []string
	n.changes = hooked{before: func(call, name string) {
		if have := n.archived(); call == "sync" && strings.HasPrefix(filepath.Base(name), archivePrefix) && len(have) != len(files) {
			t.Errorf("the archive was synced with %d files of %d", len(have), len(files))
		}
		if call == "unlink" && (len(n.events) != 1 || n.events[0].Kind != judge.EventCNIRemoving || n.events[0].Archive == "") {
			t.Errorf("removed with the events %+v", n.events)
		}
		calls = append(calls, call)
	}}
	s := n.sweep()
	if got := strings.Join(calls[:3], " "); got != "create sync sync" || len(calls) != 3+len(files) {
		t.Error(calls)
	}
	result := n.events[len(n.events)-1]
	if result.Kind != judge.EventCNIRemoved || result.Archive != s.Archive || result.Undo != s.Undo || result.Err != "" ||
		result.Taken["cni-cache"].Entries != 2 || result.Taken["cni-address"].Entries != 1 {
		t.Errorf("%+v", result)
	}
	if s.Removed != len(files) || s.Files != 0 || s.Stale != 0 || s.Networks[0].Used != 0 {
		t.Errorf("%+v", s)
	}
}

// TestNotPermitted: without a permit, or without the intent in the ledger, nothing is removed and no archive is left.
func TestNotPermitted(t *testing.T) {
	for name, change := range map[string]func(n *testNode, s *judge.Standing){
		"observe":      func(_ *testNode, s *judge.Standing) { s.Observe = true },
		"dry run":      func(_ *testNode, s *judge.Standing) { s.DryRun = true },
		"open breaker": func(_ *testNode, s *judge.Standing) { s.Breaker = true },
		"ledger full":  func(n *testNode, _ *judge.Standing) { n.refuse = true },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			files := n.leak("gone", "10.244.0.7")
			old := n.write("state/cni-old.tar.gz", "")
			n.age(old, 3*later)
			standing := judge.Standing{Node: n.snapshot.Node}
			change(n, &standing)
			s, err := New(n.cfg)
			must(t, err)
			if got := n.sweepBy(s, standing); got.Stale != len(files) || got.Removed != 0 || got.Archive != "" {
				t.Errorf("%+v", got)
			}
			n.wantGone(files, nil)
			entries, err := os.ReadDir(n.path("state"))
			must(t, err)
			if _, err := os.Stat(old); (err == nil) == n.refuse || len(entries) > 1 {
				t.Errorf("%v, %v", entries, err)
			}
		})
	}
}

// TestNoArchive: what cannot be archived is not removed.
func TestNoArchive(t *testing.T) {
	for _, call := range []string{"create", "write", "sync"} {
		n := newNode(t)
		files := n.leak("gone", "10.244.0.7")
		f := &failing{call: call}
		n.changes = f
		s := n.sweep()
		if f.made != nil && !errors.Is(f.made.Close(), os.ErrClosed) {
			t.Errorf("%s: the archive is still open, and uses space", call)
		}
		n.wantGone(files, nil)
		if !s.Operator || s.Stale != len(files) || len(s.Problems) != 1 || len(n.events) != 0 {
			t.Errorf("%s: %+v", call, s)
		}
	}
}

// failing fails one call, as a full disk does.
type failing struct {
	kernel

	call string
	made *os.File
}

func (f *failing) create(path string) (*os.File, error) {
	if f.call == "create" {
		return nil, unix.ENOSPC
	}
	var err error
	if f.made, err = f.kernel.create(path); err == nil && f.call == "write" {
		_ = f.made.Close()
		f.made, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	}
	return f.made, err
}

func (f *failing) sync(file *os.File) error {
	if f.call == "sync" {
		return unix.ENOSPC
	}
	return f.kernel.sync(file)
}

// TestNotRemoved: no archive is left if no file can be removed, unless one may be gone all the same.
func TestNotRemoved(t *testing.T) {
	for err, left := range map[error]int{unix.EROFS: 0, unix.EPERM: 0, unix.EIO: 2} {
		n := newNode(t)
		files := n.leak("gone", "10.244.0.7")
		n.changes = refusing{err: err}
		for range 2 {
			s := n.sweep()
			if s.Removed != 0 || !s.Operator || (s.Archive == "") != (left == 0) || (s.Undo == "") != (left == 0) {
				t.Errorf("%v: %+v", err, s)
			}
		}
		n.wantGone(files, nil)
		if archives := testkit.Listing(t, n.path("state")); len(archives) != left {
			t.Errorf("%v: %v", err, archives)
		}
		if e := n.events[len(n.events)-1]; e.Kind != judge.EventCNIRemoved || e.Err == "" || (e.Archive == "") != (left == 0) {
			t.Errorf("%v: %+v", err, e)
		}
	}
}

// refusing removes nothing but archives.
type refusing struct {
	kernel

	err error
}

func (r refusing) unlink(dir *fdpath.Dir, name string) error {
	if strings.HasPrefix(name, archivePrefix) {
		return r.kernel.unlink(dir, name)
	}
	return r.err
}

// TestGoneSince: what somebody else has removed needs no operator.
func TestGoneSince(t *testing.T) {
	for _, what := range []string{"cni/networks/cbr0", "cni/networks/cbr0/10.244.0.7"} {
		for _, when := range []string{"create", "sync", "unlink"} {
			n := newNode(t)
			files := n.leak("gone", "10.244.0.7")
			n.changes = hooked{before: func(call, _ string) {
				if call == when {
					must(t, os.RemoveAll(n.path(what)))
				}
			}}
			if s := n.sweep(); s.Operator || s.Removed != len(files)-1 || len(s.Problems) > 0 {
				t.Errorf("%s, before %s: %+v", what, when, s)
			}
		}
	}
}

// TestRetention: an archive is kept for the retention, and no other file is removed.
func TestRetention(t *testing.T) {
	n := newNode(t)
	n.retention = 12 * time.Hour
	keep := []string{n.write("state/cni-new.tar.gz", ""), n.write("state/ledger.jsonl", ""), n.write("state/cni-x.tar.gz/y", "")}
	n.age(keep[0], 11*time.Hour)
	gone := n.write("state/cni-old.tar.gz", "")
	n.age(gone, 13*time.Hour)
	n.sweep()
	n.wantGone(append(keep, gone), []string{gone})
}

// TestUndo runs the command that restores what a sweep has removed. An address that has a new owner is not replaced, and the next
// sweep does not take the others again.
func TestUndo(t *testing.T) {
	testkit.NeedCommand(t, "tar")
	n := newNode(t)
	files := n.leak("gone", "10.244.0.7")
	n.netns(files, "")
	want := map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		must(t, err)
		want[path] = string(text)
	}
	s := n.sweep()
	n.wantGone(files, files)
	want[files[4]] = idOf("new") + "\r\neth0"
	n.address("cbr0", "10.244.0.7", idOf("new"))
	_ = exec.CommandContext(t.Context(), "/bin/sh", "-c", s.Undo).Run() // tar fails, since it has left out a file
	for path, text := range want {
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if s = n.sweep(); s.Waiting != len(files)-1 {
		t.Errorf("%+v", s)
	}
}

// TestLock: an address is removed under host-local's own lock only.
func TestLock(t *testing.T) {
	for name, c := range map[string]struct {
		lock func(n *testNode, path string)
		gone bool
	}{
		"free": {func(n *testNode, _ string) { n.write("cni/networks/cbr0/lock", "") }, true},
		"none": {func(*testNode, string) {}, true},
		"held": {func(n *testNode, path string) {
			l, err := filemutex.New(path)
			must(n.tb, err)
			must(n.tb, l.Lock())
			n.tb.Cleanup(func() { _ = l.Close() })
		}, false},
		"a link": {func(n *testNode, path string) { must(n.tb, os.Symlink(n.write("elsewhere", ""), path)) }, false},
		"a FIFO": {func(n *testNode, path string) { must(n.tb, unix.Mkfifo(path, 0o600)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			files := n.leak("gone", "10.244.0.7")
			more := []string{n.address("cbr0", "10.244.0.8", idOf("more")), n.address("cbr0", "10.244.0.9", idOf("yet more"))}
			other := n.address("tenant", "10.9.0.9", idOf("gone"))
			c.lock(n, n.path("cni/networks/cbr0/lock"))
			if name == "free" {
				n.changes = hooked{before: func(call, file string) {
					if call == "unlink" && isAddress(file) && file != "10.9.0.9" {
						l, err := filemutex.New(n.path("cni/networks/cbr0/lock"))
						must(t, err)
						if !errors.Is(l.TryLock(), filemutex.AlreadyLocked) {
							t.Errorf("%s is removed without the lock", file)
						}
						must(t, l.Close())
					}
				}}
			}
			s := n.sweep()
			gone := append(files[:4:4], other)
			if c.gone {
				gone = append(gone, append(more, files[4])...)
			}
			n.wantGone(append(append(files, more...), other), gone)
			if c.gone == (len(s.Kept) > 0) || s.Operator != (name == "a link" || name == "a FIFO") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestChangedSince: a file that is written or replaced after it was judged is kept, and an archive has only what was judged.
func TestChangedSince(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"written in place": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("f"), 0)
			}
			return errors.Join(err, f.Close())
		},
		"replaced": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
		},
		"a link now": func(path string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
		},
		"a FIFO now":      func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"a directory now": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		for _, when := range []string{"create", "sync", "unlink"} {
			t.Run(name+", before "+when, func(t *testing.T) {
				n := newNode(t)
				files := n.leak("gone", "10.244.0.7")
				victim, done := files[4], false
				n.changes = hooked{before: func(call, _ string) {
					if call == when && !done {
						done = true
						must(t, change(victim))
					}
				}}
				if s := n.sweep(); s.Operator {
					t.Errorf("%+v", s)
				}
				n.wantGone(files, files[:4])
				if _, archived := n.archived()[victim]; archived == (when == "create") {
					t.Errorf("archived: %t", archived)
				}
			})
		}
	}
}

// TestHostile: what is no regular file of a usual size in a usual place is neither opened nor removed.
func TestHostile(t *testing.T) {
	n := newNode(t)
	id := idOf("gone")
	canary := n.write("canary", cacheText("cbr0", id, "eth0", deadUID, ""))
	results, networks := n.path("cni/results/"), n.path("cni/networks/")
	must(t, os.MkdirAll(results, 0o755))
	must(t, os.MkdirAll(networks+"/cbr0", 0o755))
	must(t, os.Symlink(canary, results+"/cbr0-"+id+"-eth0"))
	must(t, os.Link(canary, results+"/cbr0-"+id+"-eth1")) // names another interface
	must(t, unix.Mkfifo(results+"/cbr0-"+id+"-eth2", 0o600))
	must(t, os.Mkdir(results+"/cbr0-"+id+"-eth3", 0o700))
	n.write("cni/results/cbr0-"+id+"-eth4", strings.Repeat(" ", mostCache)+"{}")
	n.write("cni/results/cbr0-"+id+"-eth5", strings.Repeat("[", mostCache))
	n.write("cni/networks/cbr0/10.244.0.9", id+strings.Repeat(" ", mostAddress))
	must(t, os.Symlink(n.path("cni/networks/cbr0"), networks+"/link"))
	must(t, os.Symlink(n.path("cni/results"), n.path("cni/multus")))
	must(t, os.Mkdir(n.path("elsewhere"), 0o755))
	n.write("elsewhere/"+id, "{}")
	must(t, os.Symlink(n.path("elsewhere"), n.path("cni/flannel")))
	all := []string{canary, n.path("elsewhere/" + id), networks + "/cbr0/10.244.0.9"}
	for _, name := range []string{"eth0", "eth1", "eth2", "eth3", "eth4"} {
		all = append(all, results+"/cbr0-"+id+"-"+name)
	}
	broken := results + "/cbr0-" + id + "-eth5" // of the kubelet's network, and no JSON
	s := n.sweep()
	n.wantGone(append(all, broken), []string{broken})
	if s.Operator || s.Unknown != 5 || s.Removed != 1 {
		t.Errorf("%+v", s)
	}
}
