package removal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// needLandlock skips if the kernel has no Landlock, since the refusals cannot be tested then.
func needLandlock(t *testing.T, r *Remover) {
	t.Helper()
	if r.Means().Landlock.Truth != policy.Yes {
		testkit.Skip(t, "Landlock is hidden here: ", r.Means().Landlock.Detail)
	}
}

// attempt is an action that no batch needs. It is tried on the batch's thread.
type attempt struct {
	name string
	try  func(x *elsewhere) error
}

// elsewhere has a directory beside the kubelet's and the kubelet's directories.
type elsewhere struct {
	*testkit.Elsewhere
	pods, quar string
}

// opened opens and closes a path.
func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		beneath.Close(fd)
	}
	return err
}

var attempts = []attempt{
	{"unlink", func(x *elsewhere) error { return unix.Unlink(x.Dir + "/f") }},
	{"unlink by a handle", func(x *elsewhere) error { return unix.Unlinkat(x.DirFD, "f", 0) }},
	{"unlink by an O_PATH handle", func(x *elsewhere) error { return unix.Unlinkat(x.WriteFD, "f", 0) }},
	{"unlink by a link in quarantine", func(x *elsewhere) error { return unix.Unlink(x.quar + "/leads-away/f") }},
	{"unlink by /proc", func(x *elsewhere) error { return unix.Unlink(fmt.Sprintf("/proc/self/fd/%d/f", x.DirFD)) }},
	{"unlink by ..", func(x *elsewhere) error { return unix.Unlink(x.quar + "/../../" + filepath.Base(x.Dir) + "/f") }},
	{"rmdir", func(x *elsewhere) error { return unix.Rmdir(x.Dir + "/d") }},
	{"mkdir", func(x *elsewhere) error { return unix.Mkdir(x.Dir+"/new", 0o700) }},
	{"symlink", func(x *elsewhere) error { return unix.Symlink("f", x.Dir+"/new") }},
	{"mknod", func(x *elsewhere) error { return unix.Mknod(x.Dir+"/new", unix.S_IFIFO|0o600, 0) }},
	{"create", func(x *elsewhere) error { return opened(x.Dir+"/new", unix.O_WRONLY|unix.O_CREAT) }},
	{"write", func(x *elsewhere) error { return opened(x.Dir+"/f", unix.O_WRONLY) }},
	{"write by a handle", func(x *elsewhere) error {
		fd, err := unix.Openat(x.DirFD, "f", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			beneath.Close(fd)
		}
		return err
	}},
	{"truncate", func(x *elsewhere) error { return unix.Truncate(x.Dir+"/f", 0) }},
	{"read", func(x *elsewhere) error { return opened(x.Dir+"/f", unix.O_RDONLY) }},
	{"list", func(x *elsewhere) error { return opened(x.Dir, unix.O_RDONLY|unix.O_DIRECTORY) }},
	{"rename there", func(x *elsewhere) error { return unix.Rename(x.Dir+"/f", x.Dir+"/g") }},
	{"rename into quarantine", func(x *elsewhere) error { return unix.Rename(x.Dir+"/d", x.quar+"/d") }},
	{"rename out of quarantine", func(x *elsewhere) error { return unix.Rename(x.quar+"/mine", x.Dir+"/mine") }},
	{"rename out of pods", func(x *elsewhere) error { return unix.Rename(x.pods+"/another", x.Dir+"/b") }},
	{"exchange", func(x *elsewhere) error {
		return unix.Renameat2(unix.AT_FDCWD, x.quar+"/mine", unix.AT_FDCWD, x.Dir+"/d", unix.RENAME_EXCHANGE)
	}},
	{"link into quarantine", func(x *elsewhere) error { return unix.Link(x.Dir+"/f", x.quar+"/f") }},
	{"truncate in quarantine", func(x *elsewhere) error { return unix.Truncate(x.quar+"/mine/file", 0) }},
}

// TestConfined checks that the kernel refuses changes of all other files on a batch's thread, by any path or handle,
// while the batch works and other threads are unrestricted. Without Landlock each attempt succeeds, so Landlock
// refuses it.
func TestConfined(t *testing.T) {
	for _, confined := range []bool{true, false} {
		for _, at := range attempts {
			t.Run(fmt.Sprintf("%s/%v", at.name, confined), func(t *testing.T) { attempted(t, at, confined) })
		}
	}
}

func attempted(t *testing.T, at attempt, confined bool) {
	t.Helper()
	tr := newTree(t, "file volumes/x/one 10")
	r := tr.open(false)
	needLandlock(t, r)
	if !confined {
		testkit.Set(r.run, "handled", uint64(0))
	}
	x := &elsewhere{tr.Elsewhere("elsewhere"), tr.Pods, tr.Quar}
	defer x.Close()
	tr.Mkdir(tr.Pods + "/another")
	tr.Mkdir(tr.Quar + "/mine")
	tr.Must(os.Chmod(tr.Quar, 0o700))
	tr.Must(os.WriteFile(tr.Quar+"/mine/file", []byte("1"), 0o600))
	tr.Must(os.Symlink(x.Dir, tr.Quar+"/leads-away"))
	tried := false
	other := testkit.Outside(func(string, string) {
		tr.Must(os.Mkdir(x.Dir+"/by another thread", 0o700))
		tr.Must(os.Remove(x.Dir + "/by another thread"))
	})
	r.guards.before = func(op, name string) {
		if op != "renameat2" || tried {
			return
		}
		tried = true
		err := at.try(x)
		switch {
		case confined && !change.Is(err, unix.EACCES, unix.EXDEV):
			t.Errorf("the attempt was not refused: %v", err)
		case !confined && err != nil:
			t.Errorf("the attempt was refused without Landlock: %v", err)
		}
		if err := errors.Join(unix.Mkdir(tr.Quar+"/inside", 0o700), unix.Rmdir(tr.Quar+"/inside")); err != nil {
			t.Errorf("in quarantine: %v", err)
		}
		other(op, name)
	}
	want(t, run1(t, r, tr.parkAction(uidA)), policy.Done, "")
	if what := x.Changed(); !tried || confined && what != "" {
		t.Errorf("tried %v: %s", tried, what)
	}
}

// TestConfinedMixUp simulates a bug that the code does not check for: while a directory in quarantine is emptied, its
// descriptor refers to another directory with the same names. Landlock protects the files there; without it they are
// lost.
func TestConfinedMixUp(t *testing.T) {
	for _, confined := range []bool{true, false} {
		tr, r, a := quarantined(t, false, contents.TakeAll, "file volumes/kubernetes.io~empty-dir/e/f 10")
		needLandlock(t, r)
		if !confined {
			testkit.Set(r.run, "handled", uint64(0))
		}
		x := &elsewhere{tr.Elsewhere("elsewhere"), tr.Pods, tr.Quar}
		mixed := false
		r.guards.before = func(op, name string) {
			if op == "unlinkat" && name == "f" && !mixed {
				mixed = true
				tr.Must(unix.Dup3(x.DirFD, descriptorOf(t, "/e"), unix.O_CLOEXEC))
			}
		}
		run1(t, r, a)
		x.Close()
		if what := x.Changed(); !mixed || (what == "") != confined {
			t.Errorf("confined %v: %q", confined, what)
		}
	}
}

// descriptorOf returns the open directory whose path has this end.
func descriptorOf(t *testing.T, end string) int {
	t.Helper()
	for fd := range 100 {
		path, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", fd))
		if err == nil && strings.HasSuffix(path, end) {
			return fd
		}
	}
	t.Fatalf("%s is not open", end)
	return -1
}

// TestConfinedVersions parks and removes a pod with the rights of each Landlock version.
func TestConfinedVersions(t *testing.T) {
	const first = 0x1fff // all rights of Linux 5.13
	for _, handled := range []uint64{0, first | 0x2000, first | 0x2000 | 0x4000, first | 0x2000 | 0x4000 | 0x8000} {
		tr := newTree(t, "file volumes/kubernetes.io~empty-dir/e/f 10", "fifo volumes/x/p", "link volumes/x/l")
		r := tr.open(false)
		needLandlock(t, r)
		if handled&^testkit.Get[uint64](r.run, "handled") != 0 {
			continue
		}
		testkit.Set(r.run, "handled", handled)
		a := tr.parked(r)
		a.Take = contents.TakeAll
		want(t, run1(t, r, a), policy.Done, "")
	}
}

// TestConfineFails checks that a Landlock error stops the batch before its first change, with a message.
func TestConfineFails(t *testing.T) {
	tr := newTree(t, "file volumes/x/one 10")
	tr.Mkdir(tr.Quar)
	tr.Must(os.Chmod(tr.Quar, 0o700))
	r := tr.open(false)
	needLandlock(t, r)
	testkit.Set(r.run, "handled", uint64(1<<63)) // not supported by any kernel
	changes := 0
	r.guards.before = func(string, string) { changes++ }
	o := run1(t, r, tr.parkAction(uidA))
	want(t, o, policy.Refused, policy.ReasonRemoval)
	if !strings.Contains(o.Err, "Landlock") || !strings.Contains(o.Err, "landlock_create_ruleset") || changes != 0 {
		t.Errorf("%d changes: %s", changes, o.Err)
	}
	testkit.There(t, tr.Pods+"/"+string(uidA)+"/volumes/x/one", true)
}

// TestMeans checks the reported confinement of the Remover.
func TestMeans(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	for _, tc := range []struct {
		abi   int
		err   error
		truth policy.Truth
		words string
	}{
		{-1, unix.ENOSYS, policy.No, "the kernel has none"},
		{-1, unix.EOPNOTSUPP, policy.No, "not supported"},
		{1, nil, policy.No, "Linux 5.19"},
		{2, nil, policy.Yes, "ABI 2"},
	} {
		testkit.Set(r.run, "abi", tc.abi)
		testkit.Set(r.run, "abiErr", tc.err)
		if m := r.Means().Landlock; m.Truth != tc.truth || !strings.Contains(m.Detail, tc.words) {
			t.Errorf("%+v: %+v", tc, m)
		}
	}
	if m := r.Means().Openat2; m.Truth != policy.Yes {
		t.Errorf("with openat2: %+v", m)
	}
	if m := tr.open(true).Means().Openat2; m.Truth != policy.No || !strings.Contains(m.Detail, "mount IDs") {
		t.Errorf("without openat2: %+v", m)
	}
}
