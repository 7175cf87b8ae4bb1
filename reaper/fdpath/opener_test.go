package fdpath

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// attack makes a directory in which a name leads away from it.
type attack struct {
	name string // what is opened
	make func(t *testing.T, dir, away string)
}

var attacks = map[string]attack{
	"bind": {"x", func(t *testing.T, dir, away string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
		testkit.Mount(t, away, dir+"/x", "", unix.MS_BIND, "")
	}},
	"tmpfs": {"x", func(t *testing.T, dir, _ string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
		testkit.Mount(t, "tmpfs", dir+"/x", "tmpfs", 0, "")
	}},
	"mounted over": {"x", func(t *testing.T, dir, away string) {
		t.Helper()
		testkit.Must(t, os.MkdirAll(dir+"/x/below", 0o755))
		testkit.Mount(t, away, dir+"/x", "", unix.MS_BIND, "")
		testkit.Mount(t, away, dir+"/x", "", unix.MS_BIND, "")
	}},
	"symlink": {"x", func(t *testing.T, dir, _ string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(dir+"/other", 0o755))
		testkit.Must(t, os.Symlink("other", dir+"/x"))
	}},
	"parent":   {"..", func(*testing.T, string, string) {}},
	"absolute": {"/", func(*testing.T, string, string) {}},
}

// TestFlags shows which attack each flag stops: with all flags the attack fails; without that flag, and the flags that also
// stop it, it succeeds.
func TestFlags(t *testing.T) {
	if o, err := New(false); err != nil || o.Fallback() != nil {
		testkit.Skip(t, "there is no openat2: ", err)
	}
	for flag, test := range map[string]struct {
		attack string
		flag   uint64
		also   uint64 // flags that stop it, too
		err    error
	}{
		"NO_XDEV, bind":         {attack: "bind", flag: unix.RESOLVE_NO_XDEV, err: unix.EXDEV},
		"NO_XDEV, tmpfs":        {attack: "tmpfs", flag: unix.RESOLVE_NO_XDEV, err: unix.EXDEV},
		"NO_XDEV, mounted over": {attack: "mounted over", flag: unix.RESOLVE_NO_XDEV, err: unix.EXDEV},
		"NO_SYMLINKS":           {attack: "symlink", flag: unix.RESOLVE_NO_SYMLINKS, err: unix.ELOOP},
		"BENEATH, parent":       {attack: "parent", flag: unix.RESOLVE_BENEATH, err: unix.EXDEV},
		"BENEATH, absolute":     {attack: "absolute", flag: unix.RESOLVE_BENEATH, also: unix.RESOLVE_NO_XDEV, err: unix.EXDEV},
	} {
		t.Run(flag, func(t *testing.T) {
			a, dir := attacks[test.attack], t.TempDir()
			a.make(t, dir, t.TempDir())
			parent, o := open(t, dir), &Opener{}
			// The caller has forgotten O_NOFOLLOW, which stops most links as well.
			const flags = readDir &^ (unix.O_NOFOLLOW | unix.O_NOATIME)
			for _, resolve := range []uint64{resolveStep, test.flag} {
				if fd, err := o.open(parent, a.name, flags, resolve); !errors.Is(err, test.err) {
					Close(fd)
					t.Errorf("with the flags %#x: %v, not %v", resolve, err, test.err)
				}
			}
			fd, err := o.open(parent, a.name, flags, resolveStep&^(test.flag|test.also))
			if err != nil {
				t.Fatalf("the guard is off and the attack fails: %v", err)
			}
			defer Close(fd)
			if st, err := Stat(fd); err != nil || st.Ino == inode(t, dir) && DevOf(&st) == device(t, dir) {
				t.Errorf("the attack leads nowhere: %v", err)
			}
		})
	}
}

// TestSelfTest checks that a kernel that ignores one of the flags is found at the start, whatever its version, and so are
// mount IDs that are all the same.
func TestSelfTest(t *testing.T) {
	root := open(t, "/")
	if device(t, "/proc") == device(t, "/") {
		testkit.Skip(t, "there is no /proc")
	}
	for name, o := range map[string]*Opener{
		"no NO_XDEV":   {flags: resolveStep &^ unix.RESOLVE_NO_XDEV},
		"no BENEATH":   {flags: resolveStep &^ unix.RESOLVE_BENEATH},
		"no mount IDs": {fallback: errors.ErrUnsupported, flags: resolveStep, same: func(_, _ int) (bool, error) { return true, nil }},
	} {
		if err := o.stopsAtMounts(root); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	for name, o := range map[string]*Opener{
		"openat2":   {flags: resolveStep},
		"mount IDs": {fallback: errors.ErrUnsupported, flags: resolveStep, same: sameMount},
	} {
		if err := o.stopsAtMounts(root); err != nil && !Is(err, unix.ENOSYS, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMagicLink opens a link of procfs, which leads to the file of a descriptor. BENEATH and NO_SYMLINKS stop it, too, so
// they are off.
func TestMagicLink(t *testing.T) {
	target := open(t, "/proc/self/task")
	fds := open(t, "/proc/self/fd")
	name, rest := fmt.Sprint(target), uint64(unix.RESOLVE_NO_XDEV)
	o := &Opener{}
	const flags = readDir &^ (unix.O_NOFOLLOW | unix.O_NOATIME)
	if fd, err := o.open(fds, name, flags, rest|unix.RESOLVE_NO_MAGICLINKS); !errors.Is(err, unix.ELOOP) {
		Close(fd)
		if Is(err, unix.ENOSYS, unix.EPERM) {
			testkit.Skip(t, "there is no openat2: ", err)
		}
		t.Errorf("%v, not ELOOP", err)
	}
	fd, err := o.open(fds, name, flags, rest)
	if err != nil {
		t.Fatalf("the guard is off and the attack fails: %v", err)
	}
	Close(fd)
	if fd, err := o.open(fds, name, flags, resolveStep); err == nil {
		Close(fd)
		t.Error("a step follows a magic link")
	}
}

// TestAttacked opens attacked names in both ways.
func TestAttacked(t *testing.T) {
	for way, no := range ways {
		for what, a := range attacks {
			t.Run(way+", "+what, func(t *testing.T) {
				dir := t.TempDir()
				a.make(t, dir, t.TempDir())
				d := dirAt(t, no, dir)
				for _, flags := range []int{readDir, pathDir} {
					if at, err := d.step(a.name, flags); err == nil {
						at.Close()
						t.Errorf("opened with %#x", flags)
					}
				}
				if id, err := d.Identify(a.name); err == nil {
					t.Errorf("it is %+v", id)
				}
				if _, err := d.ReadFile(a.name, 10); err == nil {
					t.Error("it is a file")
				}
			})
		}
	}
}

// TestMountIDGuard shows that without openat2 the comparison of mounts is all that stops a step.
func TestMountIDGuard(t *testing.T) {
	o, err := New(true)
	testkit.Must(t, err)
	dir, away := t.TempDir(), t.TempDir()
	attacks["bind"].make(t, dir, away)
	parent := open(t, dir)
	if _, err := o.step(parent, "x", readDir); !errors.Is(err, unix.EXDEV) {
		t.Errorf("%v, not EXDEV", err)
	}
	o.same = func(_, _ int) (bool, error) { return true, nil }
	fd, err := o.step(parent, "x", readDir)
	testkit.Must(t, err)
	defer Close(fd)
	if st, err := Stat(fd); err != nil || st.Ino != inode(t, away) {
		t.Errorf("the guard is off and the attack fails: %v", err)
	}
}

// TestMountIDUnknown checks that without openat2 and without a readable mount ID a step reports neither a mount point nor a
// missing name, as ENOENT of a missing /proc would.
func TestMountIDUnknown(t *testing.T) {
	broken := func(int) (uint64, error) { return 0, unix.ENOENT }
	o := &Opener{fallback: errors.ErrUnsupported, flags: resolveStep, same: func(a, b int) (bool, error) { return sameBy(a, b, broken, broken) }}
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
	parent, before := open(t, dir), testkit.OpenFDs(t)
	for _, flags := range []int{readDir, pathDir, pathAny} {
		fd, err := o.step(parent, "x", flags)
		if _, number := errors.AsType[unix.Errno](err); err == nil || number || Gone(err) {
			Close(fd)
			t.Errorf("%#x: %v", flags, err)
		}
	}
	if o.At(parent).SameMount(o.At(parent)) {
		t.Error("a mount that is not known is the same")
	}
	if after := testkit.OpenFDs(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// TestSameBy checks that one way answers for both descriptors, or nothing is known.
func TestSameBy(t *testing.T) {
	ids := func(a, b uint64) func(int) (uint64, error) { // 0 is an error
		return func(fd int) (uint64, error) {
			id := map[int]uint64{1: a, 2: b}[fd]
			if id == 0 {
				return 0, unix.EACCES
			}
			return id, nil
		}
	}
	for name, test := range map[string]struct {
		first, second func(int) (uint64, error)
		same, known   bool
	}{
		"the same":            {ids(7, 7), ids(8, 9), true, true},
		"another":             {ids(7, 8), ids(9, 9), false, true},
		"the second way":      {ids(0, 0), ids(9, 9), true, true},
		"the second, another": {ids(0, 7), ids(8, 9), false, true},
		"one of the two":      {ids(7, 0), ids(7, 7), false, false},
		"none":                {ids(0, 0), ids(0, 0), false, false},
		"half and half":       {ids(0, 7), ids(7, 0), false, false},
	} {
		same, err := sameBy(1, 2, test.first, test.second)
		if same != test.same || (err == nil) != test.known {
			t.Errorf("%s: %t, %v", name, same, err)
		}
	}
}

// TestMountedInBetween mounts over the name after it is held: the step still opens what is below.
func TestMountedInBetween(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
	want := inode(t, dir+"/x")
	o := &Opener{fallback: errors.ErrUnsupported, flags: resolveStep, same: func(a, b int) (bool, error) {
		testkit.Mount(t, away, dir+"/x", "", unix.MS_BIND, "")
		return sameMount(a, b)
	}}
	fd, err := o.step(open(t, dir), "x", readDir)
	testkit.Must(t, err)
	defer Close(fd)
	if st, err := Stat(fd); err != nil || st.Ino != want {
		t.Errorf("another directory was opened: %v", err)
	}
}

// TestNames checks that a step is one name.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+"/a/b", 0o755))
	for way, no := range ways {
		parent := dirAt(t, no, dir+"/a")
		for _, name := range []string{"", "..", "b/", "./b", "/", "b/..", "b\x00", "../a"} {
			for _, step := range []func(string) (*Dir, error){parent.Step, parent.Cross, parent.Handle} {
				if d, err := step(name); !errors.Is(err, unix.EINVAL) {
					d.Close()
					t.Errorf("%s: %q: %v, not EINVAL", way, name, err)
				}
			}
		}
		d, err := parent.Step("b")
		testkit.Must(t, err)
		d.Close()
	}
}

// TestCross checks that a mount point can be crossed, and no link.
func TestCross(t *testing.T) {
	for way, no := range ways {
		for what, want := range map[string]bool{"bind": true, "tmpfs": true, "symlink": false} {
			dir := t.TempDir()
			attacks[what].make(t, dir, t.TempDir())
			d, err := dirAt(t, no, dir).Cross("x")
			if d.Close(); (err == nil) != want {
				t.Errorf("%s, %s: %v", way, what, err)
			}
		}
	}
}
