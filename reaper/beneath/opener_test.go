package beneath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// attack is a directory in which a name leads away from it, and whether it does so for these flags.
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

// TestFlags shows which attack each flag stops: with all flags the attack fails; without that flag, and the
// flags that also stop it, it succeeds.
func TestFlags(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
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
			parent := open(t, dir)
			// The caller has forgotten O_NOFOLLOW, which stops most links as well.
			const flags = ReadDir &^ unix.O_NOFOLLOW
			guarded, off := &Opener{down: resolveDown}, &Opener{down: resolveDown &^ (test.flag | test.also)}
			for _, o := range []*Opener{guarded, {down: test.flag}} {
				if fd, err := o.resolve(parent, a.name, flags, o.down); !errors.Is(err, test.err) {
					Close(fd)
					t.Errorf("with the flags %#x: %v, not %v", o.down, err, test.err)
				}
			}
			fd, err := off.resolve(parent, a.name, flags, off.down)
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

// TestSelfTest: a kernel that ignores one of the flags is found at the start, whatever its version, and so are mount IDs that are all the same.
func TestSelfTest(t *testing.T) {
	root := open(t, "/")
	if st, err := StatName(root, "proc"); err != nil || DevOf(&st) == device(t, "/") {
		testkit.Skip(t, "there is no /proc: ", err)
	}
	for name, o := range map[string]*Opener{
		"no NO_XDEV, down": {down: resolveDown &^ unix.RESOLVE_NO_XDEV, up: resolveUp},
		"no NO_XDEV, up":   {down: resolveDown, up: resolveUp &^ unix.RESOLVE_NO_XDEV},
		"no BENEATH":       {down: resolveDown &^ unix.RESOLVE_BENEATH, up: resolveUp},
		"no mount IDs":     {fallback: errors.ErrUnsupported, same: func(_, _ int) (bool, error) { return true, nil }},
	} {
		if err := o.stopsAtMounts(root); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	for name, o := range map[string]*Opener{
		"openat2":   {down: resolveDown, up: resolveUp},
		"mount IDs": {fallback: errors.ErrUnsupported, same: sameMount},
	} {
		if err := o.stopsAtMounts(root); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMagicLink: a link of procfs leads to the file of a descriptor. BENEATH and NO_SYMLINKS stop it, too, so
// they are off.
func TestMagicLink(t *testing.T) {
	target := open(t, "/proc/self/task")
	fds := open(t, "/proc/self/fd")
	name, rest := fmt.Sprint(target), uint64(unix.RESOLVE_NO_XDEV)
	o := &Opener{}
	if fd, err := o.resolve(fds, name, ReadDir&^unix.O_NOFOLLOW, rest|unix.RESOLVE_NO_MAGICLINKS); !errors.Is(err, unix.ELOOP) {
		Close(fd)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			testkit.Skip(t, "there is no openat2: ", err)
		}
		t.Errorf("%v, not ELOOP", err)
	}
	fd, err := o.resolve(fds, name, ReadDir&^unix.O_NOFOLLOW, rest)
	if err != nil {
		t.Fatalf("the guard is off and the attack fails: %v", err)
	}
	Close(fd)
	if fd, err := o.resolve(fds, name, ReadDir&^unix.O_NOFOLLOW, resolveDown); err == nil {
		Close(fd)
		t.Error("a step follows a magic link")
	}
}

// ways are the two ways to open a name.
var ways = map[string]bool{"openat2": false, "mount ID": true}

// TestAttacked opens attacked names in both ways.
func TestAttacked(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	for way, no := range ways {
		o, err := New(no)
		testkit.Must(t, err)
		for what, a := range attacks {
			t.Run(way+", "+what, func(t *testing.T) {
				dir := t.TempDir()
				a.make(t, dir, t.TempDir())
				parent := open(t, dir)
				for _, flags := range []int{ReadDir, OPathDir, ReadRegular} {
					if fd, err := o.step(parent, a.name, flags); err == nil {
						Close(fd)
						t.Errorf("opened with %#x", flags)
					}
				}
				if id, err := o.At(parent).Identify(a.name); err == nil {
					t.Errorf("it is %+v", id)
				}
				if _, _, err := o.At(parent).openRegular(a.name); err == nil {
					t.Error("it is a file")
				}
			})
		}
	}
}

// TestMountIDGuard: without openat2, the comparison of mounts is all that stops a step.
func TestMountIDGuard(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	o, err := New(true)
	testkit.Must(t, err)
	dir, away := t.TempDir(), t.TempDir()
	attacks["bind"].make(t, dir, away)
	parent := open(t, dir)
	if _, err := o.step(parent, "x", ReadDir); !errors.Is(err, unix.EXDEV) {
		t.Errorf("%v, not EXDEV", err)
	}
	o.same = func(_, _ int) (bool, error) { return true, nil }
	fd, err := o.step(parent, "x", ReadDir)
	testkit.Must(t, err)
	defer Close(fd)
	if st, err := Stat(fd); err != nil || st.Ino != inode(t, away) {
		t.Errorf("the guard is off and the attack fails: %v", err)
	}
}

// TestMountIDUnknown: without openat2 and without a readable mount ID, a step must report neither a mount
// point, which some callers treat as the end of a search, nor a missing name, as ENOENT of a missing /proc
// would.
func TestMountIDUnknown(t *testing.T) {
	broken := func(int) (uint64, error) { return 0, unix.ENOENT }
	o := &Opener{fallback: errors.ErrUnsupported, same: func(a, b int) (bool, error) { return sameBy(a, b, broken, broken) }}
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
	parent, before := open(t, dir), testkit.OpenFDs(t)
	for _, flags := range []int{ReadDir, OPathDir, OPath} {
		fd, err := o.step(parent, "x", flags)
		if _, number := errors.AsType[unix.Errno](err); err == nil || number || Gone(err) {
			Close(fd)
			t.Errorf("%#x: %v", flags, err)
		}
	}
	if _, err := o.At(parent).Identify("x"); err == nil || errors.Is(err, unix.EXDEV) {
		t.Errorf("identified: %v", err)
	}
	if o.At(parent).SameMount(o.At(parent)) {
		t.Error("doubt is yes")
	}
	if after := testkit.OpenFDs(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// TestSameBy: one way answers for both descriptors, or nothing is known.
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
	if !testkit.InNamespace(t) {
		return
	}
	dir, away := t.TempDir(), t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/x", 0o755))
	want := inode(t, dir+"/x")
	o := &Opener{fallback: errors.ErrUnsupported, same: func(a, b int) (bool, error) {
		testkit.Mount(t, away, dir+"/x", "", unix.MS_BIND, "")
		return sameMount(a, b)
	}}
	fd, err := o.step(open(t, dir), "x", ReadDir)
	testkit.Must(t, err)
	defer Close(fd)
	if st, err := Stat(fd); err != nil || st.Ino != want {
		t.Errorf("another directory was opened: %v", err)
	}
}

// TestParent: ".." of a directory that is covered by a mount is refused.
func TestParent(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	for way, no := range ways {
		t.Run(way, func(t *testing.T) {
			o, err := New(no)
			testkit.Must(t, err)
			dir := t.TempDir()
			testkit.Must(t, os.MkdirAll(dir+"/plain", 0o755))
			up, err := o.At(open(t, dir+"/plain")).Parent()
			testkit.Must(t, err)
			defer up.Close()
			if st, err := up.Stat(); err != nil || st.Ino != inode(t, dir) {
				t.Errorf("another parent: %v", err)
			}
			attacks["tmpfs"].make(t, dir, "")
			if up, err := o.At(open(t, dir+"/x")).Parent(); !errors.Is(err, unix.EXDEV) {
				up.Close()
				t.Errorf("%v, not EXDEV", err)
			}
		})
	}
}

// TestNames: a step is one name.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+"/a/b", 0o755))
	for way, no := range ways {
		o, err := New(no)
		testkit.Must(t, err)
		parent := o.At(open(t, dir+"/a"))
		for _, name := range []string{"", "..", "b/", "./b", "/", "b/..", "b\x00", "../a"} {
			for _, step := range []func(string) (*Dir, error){
				parent.Step, parent.Cross, parent.Handle, func(name string) (*Dir, error) { return parent.Walk(name) },
			} {
				if d, err := step(name); !errors.Is(err, unix.EINVAL) {
					d.Close()
					t.Errorf("%s: %q: %v, not EINVAL", way, name, err)
				}
			}
		}
		d, err := parent.Walk("b")
		testkit.Must(t, err)
		d.Close()
	}
}

// TestCross: a directory of the administrator's may be a mount point, and no link.
func TestCross(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	for way, no := range ways {
		o, err := New(no)
		testkit.Must(t, err)
		for what, want := range map[string]bool{"bind": true, "tmpfs": true, "symlink": false} {
			dir := t.TempDir()
			attacks[what].make(t, dir, t.TempDir())
			d, err := o.At(open(t, dir)).Cross("x")
			if d.Close(); (err == nil) != want {
				t.Errorf("%s, %s: %v", way, what, err)
			}
		}
	}
}

// open holds a directory until the test ends.
func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	testkit.Must(t, err)
	t.Cleanup(func() { Close(fd) })
	return fd
}

func inode(t *testing.T, path string) uint64 { t.Helper(); st := stat(t, path); return st.Ino }

func device(t *testing.T, path string) uint64 { t.Helper(); st := stat(t, path); return DevOf(&st) }

func stat(t *testing.T, path string) unix.Statx_t {
	t.Helper()
	st, err := StatName(unix.AT_FDCWD, filepath.Clean(path))
	testkit.Must(t, err)
	return st
}
