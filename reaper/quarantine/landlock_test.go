package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// needLandlock skips if the kernel has no Landlock, since the refusals cannot be tested then.
func needLandlock(t *testing.T, q *Quarantine) {
	t.Helper()
	if _, f := q.Means(); f.Truth != judge.Yes {
		testkit.Skip(t, "Landlock is hidden here: ", f.Detail)
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
	fdpath.Close(fd)
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
		fdpath.Close(fd)
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

// TestConfined checks that the kernel refuses changes of all other files on a batch's thread, by any path or handle, while
// the batch works and other threads are unrestricted. Without Landlock each attempt succeeds.
func TestConfined(t *testing.T) {
	testkit.OnTmpfs(t)
	for _, confined := range []bool{true, false} {
		for _, at := range attempts {
			t.Run(fmt.Sprintf("%s/%v", at.name, confined), func(t *testing.T) { attempted(t, at, confined) })
		}
	}
}

func attempted(t *testing.T, at attempt, confined bool) {
	t.Helper()
	tr := newTree(t, "file volumes/x/one 10")
	q := tr.open(false)
	needLandlock(t, q)
	if !confined {
		q.landlock.handled = 0
	}
	x := &elsewhere{tr.Elsewhere("elsewhere"), tr.Pods, tr.Quar}
	defer x.Close()
	tr.Mkdir(tr.Pods + "/another")
	tr.Must(os.Mkdir(tr.Quar, 0o700))
	tr.Mkdir(tr.Quar + "/mine")
	tr.Must(os.WriteFile(tr.Quar+"/mine/file", []byte("1"), 0o600))
	tr.Must(os.Symlink(x.Dir, tr.Quar+"/leads-away"))
	tried := false
	other := testkit.Outside(func(string, string) {
		tr.Must(os.Mkdir(x.Dir+"/by another thread", 0o700))
		tr.Must(os.Remove(x.Dir + "/by another thread"))
	})
	q.disk = hooked{kernel{}, func(op, name string) {
		if op != "rename" || tried {
			return
		}
		tried = true
		err := at.try(x)
		switch {
		case confined && !fdpath.Is(err, unix.EACCES, unix.EXDEV):
			t.Errorf("the attempt was not refused: %v", err)
		case !confined && err != nil:
			t.Errorf("the attempt was refused without Landlock: %v", err)
		}
		if err := errors.Join(unix.Mkdir(tr.Quar+"/inside", 0o700), unix.Rmdir(tr.Quar+"/inside")); err != nil {
			t.Errorf("in quarantine: %v", err)
		}
		other(op, name)
	}}
	want(t, run1(t, q, tr.move(uidA)), judge.Done)
	if what := x.Changed(); !tried || confined && what != "" {
		t.Errorf("tried %v: %s", tried, what)
	}
}

// TestConfinedMixUp simulates a bug that the code does not check for: while a directory in quarantine is emptied, its
// descriptor refers to another directory with the same names. Landlock protects the files there; without it they are lost.
func TestConfinedMixUp(t *testing.T) {
	for _, confined := range []bool{true, false} {
		tr, q, m := entryWith(t, false, content.All, "file "+emptyDirE+"/f 10")
		needLandlock(t, q)
		if !confined {
			q.landlock.handled = 0
		}
		x := &elsewhere{tr.Elsewhere("elsewhere"), tr.Pods, tr.Quar}
		mixed := false
		before(q, func(op, name string) {
			if op == "unlink" && name == "f" && !mixed {
				mixed = true
				tr.Must(unix.Dup3(x.DirFD, descriptorOf(t, "/e"), unix.O_CLOEXEC))
			}
		})
		run1(t, q, m)
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

// TestConfinedVersions moves and removes a pod with the rights of each Landlock version.
func TestConfinedVersions(t *testing.T) {
	const first = 0x1fff // all rights of Linux 5.13
	for _, handled := range []uint64{0, first | 0x2000, first | 0x2000 | 0x4000, first | 0x2000 | 0x4000 | 0x8000} {
		tr := newTree(t, "file "+emptyDirE+"/f 10", "fifo volumes/x/p", "link volumes/x/l", "dir "+emptyDirE+"/"+strings.Repeat("d/", 2*liftFrom))
		q := tr.open(false)
		needLandlock(t, q)
		if handled&^q.landlock.handled != 0 {
			continue
		}
		q.landlock.handled = handled
		m := tr.quarantined(q, judge.Purge)
		m.Remove = content.All
		want(t, run1(t, q, m), judge.Done)
	}
}

// TestConfineFails checks that a Landlock error stops the batch before its first change, with a message.
func TestConfineFails(t *testing.T) {
	tr := newTree(t, "file volumes/x/one 10")
	tr.Must(os.Mkdir(tr.Quar, 0o700))
	q := tr.open(false)
	needLandlock(t, q)
	q.landlock.handled = 1 << 63 // not supported by any kernel
	before(q, func(op, name string) { t.Errorf("%s %s", op, name) })
	want(t, run1(t, q, tr.move(uidA)), judge.Refused, "Landlock", "landlock_create_ruleset")
	testkit.There(t, tr.pod()+"/volumes/x/one", true)
}

// TestMeans checks the reported confinement, and that a ruleset has only rights that the kernel's version knows.
func TestMeans(t *testing.T) {
	for _, tc := range []struct {
		l     landlock
		truth judge.Truth
		words string
	}{
		{landlock{abi: -1, err: unix.ENOSYS}, judge.No, "the kernel has none"},
		{landlock{abi: -1, err: unix.EOPNOTSUPP}, judge.No, "not supported"},
		{landlock{abi: 1}, judge.No, "Linux 5.19"},
		{landlock{abi: 2}, judge.Yes, "ABI 2"},
	} {
		if f := tc.l.fact(); f.Truth != tc.truth || !strings.Contains(f.Detail, tc.words) {
			t.Errorf("%+v: %+v", tc, f)
		}
	}
	tr := newTree(t)
	if f, _ := tr.open(true).Means(); f.Truth != judge.No || !strings.Contains(f.Detail, "mount IDs") {
		t.Errorf("without openat2: %+v", f)
	}
	const first = 0x1fff // all rights of Linux 5.13
	for abi, handled := range map[int]uint64{
		-1: 0, 0: 0, 1: 0, 2: first | 0x2000, 3: first | 0x2000 | 0x4000, 4: first | 0x2000 | 0x4000,
		5: first | 0x2000 | 0x4000 | 0x8000, 99: first | 0x2000 | 0x4000 | 0x8000,
	} {
		if got := handledBy(abi); got != handled {
			t.Errorf("ABI %d: %#x, want %#x", abi, got, handled)
		}
	}
}
