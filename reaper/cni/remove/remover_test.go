package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// cniTree has a node's CNI directories, made for one test.
type cniTree struct {
	*testkit.Tree
	cni, results, network string
	r                     *Remover
}

func newCNI(tb testing.TB, no bool) *cniTree {
	tb.Helper()
	tr := testkit.NewTree(tb)
	x := &cniTree{Tree: tr, cni: tr.Base + "/cni", results: tr.Base + "/cni/results", network: tr.Base + "/cni/networks/podnet"}
	tr.Mkdir(x.results)
	tr.Mkdir(x.network)
	r, err := open(x.cni, no)
	x.Must(err)
	r.lockWait = 200 * time.Millisecond
	x.r = r
	return x
}

func open(dir string, no bool) (*Remover, error) {
	o, err := beneath.New(no)
	if err != nil {
		return nil, err
	}
	return newRemover(func() []string { return []string{dir} }, o, confine.New(10*time.Second, slog.New(slog.DiscardHandler))), nil
}

func containerID(n int) string { return fmt.Sprintf("%064x", n+0xabc) }

// cache writes the result cache of container n, old enough for the rules.
func (x *cniTree) cache(n int) cni.File {
	x.T.Helper()
	return x.file(cni.Cache, x.results, "podnet-"+containerID(n)+"-eth0", fmt.Sprintf(`{"kind":"cniCacheV1","containerId":%q}`, containerID(n)), n)
}

func (x *cniTree) address(n int, addr string) cni.File {
	x.T.Helper()
	return x.file(cni.Address, x.network, addr, containerID(n)+"\r\neth0", n)
}

func (x *cniTree) file(kind cni.Kind, dir, name, content string, n int) cni.File {
	x.T.Helper()
	path := dir + "/" + name
	x.Must(os.WriteFile(path, []byte(content), 0o600))
	old := time.Now().Add(-48 * time.Hour)
	x.Must(os.Chtimes(path, old, old))
	c := x.read(kind, dir, name)
	c.Container, c.IfName = containerID(n), "eth0"
	return c
}

// read returns a file as the look reads it.
func (x *cniTree) read(kind cni.Kind, dir, name string) cni.File {
	x.T.Helper()
	c, err := readCNI(kind, dir, name)
	x.Must(err)
	return c
}

func readCNI(kind cni.Kind, dir, name string) (cni.File, error) {
	data, err := os.ReadFile(dir + "/" + name)
	if err != nil {
		return cni.File{}, err
	}
	info, err := os.Lstat(dir + "/" + name)
	if err != nil {
		return cni.File{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return cni.File{}, errors.New("no stat")
	}
	return cni.File{
		Kind: kind, Dir: dir, Name: name, ID: cni.FileID{Dev: st.Dev, Ino: st.Ino, Size: st.Size, Ctime: st.Ctim.Nano()},
		Mode: st.Mode & 0o7777, Owner: [2]uint32{st.Uid, st.Gid}, Mtime: info.ModTime(), Data: data,
	}, nil
}

// remove and restore run with a permit.
func (r *Remover) remove(ctx context.Context, files []cni.File) []cni.File {
	return r.change(ctx, files, true, false)
}

func (r *Remover) restore(ctx context.Context, files []cni.File) []cni.File {
	return r.change(ctx, files, true, true)
}

func (x *cniTree) take(files ...cni.File) []cni.File {
	x.T.Helper()
	return inOrder(x.T, files, x.r.remove(context.Background(), files))
}

func (x *cniTree) restore(files ...cni.File) []cni.File {
	x.T.Helper()
	return inOrder(x.T, files, x.r.restore(context.Background(), files))
}

func inOrder(tb testing.TB, files, out []cni.File) []cni.File {
	tb.Helper()
	if len(out) != len(files) {
		tb.Fatalf("%d outcomes for %d files", len(out), len(files))
	}
	for i := range out {
		if out[i].Name != files[i].Name || out[i].Dir != files[i].Dir {
			tb.Fatalf("outcome %d is of %q", i, out[i].Name)
		}
	}
	return out
}

// ended checks that every outcome has the result and all parts of an error.
func ended(tb testing.TB, out []cni.File, result policy.Result, words ...string) {
	tb.Helper()
	for _, o := range out {
		if o.Result != result || (o.Err == "") != (result == policy.Done || result == policy.Gone) {
			tb.Errorf("%q: %s %s, want %s", o.Name, o.Result, o.Err, result)
		}
		for _, w := range words {
			if !strings.Contains(o.Err, w) {
				tb.Errorf("%q: %q does not contain %q", o.Name, o.Err, w)
			}
		}
	}
}

func TestRemoveAndRestoreCNI(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			x := newCNI(t, no)
			x.Mkdir(x.cni + "/multus")
			files := []cni.File{
				x.address(1, "10.0.0.7"), x.cache(1), x.address(2, "10.0.0.8"), x.cache(2), x.address(1, "fd00::7"),
				x.file(cni.Multus, x.cni+"/multus", containerID(1), "[]", 1),
				x.file(cni.Cache, x.results, "broken\n\xff\x01-"+strings.Repeat("x", 200), "", 3),
				x.file(cni.Cache, x.results, strings.Repeat("y", 255), strings.Repeat("z", 300_000), 3),
			}
			x.Must(os.Chmod(x.results+"/"+files[1].Name, 0o640))
			x.Must(os.Lchown(x.results+"/"+files[1].Name, os.Getuid(), os.Getgid()))
			files[1] = x.read(cni.Cache, x.results, files[1].Name)
			for _, name := range []string{"last_reserved_ip.0", "last_reserved_ip.1", "lock", "10.0.0.9"} {
				x.Canary(x.network + "/" + name)
			}
			x.Canary(x.results + "/podnet-" + containerID(9) + "-eth0")
			before := testkit.Listing(t, x.cni)

			ended(t, x.take(files...), policy.Done)
			for _, f := range files {
				testkit.There(t, f.Dir+"/"+f.Name, false)
			}
			ended(t, x.take(files...), policy.Gone)
			ended(t, x.restore(files...), policy.Done)
			if got := testkit.Listing(t, x.cni); !slices.Equal(got, before) {
				t.Errorf("restored:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
			}
			for _, f := range files {
				got := x.read(f.Kind, f.Dir, f.Name)
				if got.Mode != f.Mode || got.Owner != f.Owner || !got.Mtime.Equal(f.Mtime) || string(got.Data) != string(f.Data) {
					t.Errorf("%q came back as %+v", f.Name, got)
				}
			}
			ended(t, x.restore(files...), policy.Gone)
			ended(t, x.take(files...), policy.Refused, "changed or replaced")
			if n := x.r.remove(context.Background(), nil); n != nil {
				t.Error(n)
			}
		})
	}
}

// TestCNIPermit checks that without the gate's permit nothing is removed or restored.
func TestCNIPermit(t *testing.T) {
	x := newCNI(t, false)
	c := x.cache(1)
	ended(t, x.r.RemoveCNI(t.Context(), policy.Permit{}, []cni.File{c}), policy.Refused, "may not change the node")
	testkit.There(t, c.Dir+"/"+c.Name, true)
	ended(t, x.take(c), policy.Done)
	ended(t, x.r.RestoreCNI(t.Context(), policy.Permit{}, []cni.File{c}), policy.Refused, "may not change the node")
	testkit.There(t, c.Dir+"/"+c.Name, false)
}

// TestRemoveCNIRefuses checks that everything but exactly the archived file is kept, link targets included.
func TestRemoveCNIRefuses(t *testing.T) {
	at := func(c cni.File) string { return c.Dir + "/" + c.Name }
	cases := map[string]struct {
		change func(x *cniTree, c *cni.File)
		words  string
		result policy.Result
	}{
		"written anew, same size, times set back": {func(x *cniTree, c *cni.File) {
			x.Must(os.WriteFile(at(*c), []byte(strings.Repeat("n", len(c.Data))), 0o600))
			x.Must(os.Chtimes(at(*c), c.Mtime, c.Mtime))
		}, "changed or replaced", ""},
		"other content under the same identity": {func(_ *cniTree, c *cni.File) {
			c.Data[3] ^= 1
		}, "changed or replaced", ""},
		"no identity": {func(_ *cniTree, c *cni.File) { c.ID = cni.FileID{} }, "changed or replaced", ""},
		"appended to": {func(x *cniTree, c *cni.File) {
			x.Must(os.WriteFile(at(*c), append(c.Data, 'x'), 0o600))
		}, "changed or replaced", ""},
		"replaced by another with the same content": {func(x *cniTree, c *cni.File) {
			x.Must(os.WriteFile(at(*c)+".new", c.Data, 0o600))
			x.Must(os.Rename(at(*c)+".new", at(*c)))
		}, "changed or replaced", ""},
		"chmod": {func(x *cniTree, c *cni.File) { x.Must(os.Chmod(at(*c), 0o644)) }, "changed or replaced", ""},
		"a symlink": {func(x *cniTree, c *cni.File) {
			x.Must(os.Rename(at(*c), x.Outside+"/away"))
			x.Must(os.Symlink(x.Outside+"/away", at(*c)))
		}, "a symbolic link", ""},
		"a directory": {func(x *cniTree, c *cni.File) {
			x.Must(os.Remove(at(*c)))
			x.Canary(at(*c) + "/inside")
		}, "a directory", ""},
		"a FIFO": {func(x *cniTree, c *cni.File) {
			x.Must(os.Remove(at(*c)))
			x.Must(unix.Mkfifo(at(*c), 0o600))
		}, "a FIFO", ""},
		"a device": {func(x *cniTree, c *cni.File) {
			x.Must(os.Remove(at(*c)))
			if err := unix.Mknod(at(*c), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
				testkit.Skip(x.T, "cannot make a device: ", err)
			}
		}, "a device", ""},
		"a socket": {func(x *cniTree, c *cni.File) {
			x.Must(os.Remove(at(*c)))
			x.Must(unix.Mknod(at(*c), unix.S_IFSOCK|0o600, 0))
		}, "a socket", ""},
		"mounted on": {func(x *cniTree, c *cni.File) {
			if err := unix.Mount(at(*c), at(*c), "", unix.MS_BIND, ""); err != nil {
				testkit.Skip(x.T, "nothing can be mounted: ", err)
			}
		}, "mounted", ""},
		"immutable": {func(x *cniTree, c *cni.File) {
			if err := testkit.Immutable(at(*c), true); err != nil {
				testkit.Skip(x.T, "no immutable files here: ", err)
			}
			*c = x.read(c.Kind, c.Dir, c.Name)
		}, "immutable", policy.Failed},
		"immutable directory": {func(x *cniTree, c *cni.File) {
			if err := testkit.Immutable(c.Dir, true); err != nil {
				testkit.Skip(x.T, "no immutable directories here: ", err)
			}
		}, "immutable", policy.Failed},
		"directory is a symlink": {func(x *cniTree, c *cni.File) {
			x.Must(os.Rename(c.Dir, x.Outside+"/dir"))
			x.Must(os.Symlink(x.Outside+"/dir", c.Dir))
		}, "open", ""},
		"directory is a file": {func(x *cniTree, c *cni.File) {
			x.Must(os.Rename(c.Dir, x.Outside+"/dir"))
			x.Must(os.WriteFile(c.Dir, nil, 0o600))
		}, "open", ""},
		"unconfigured": {func(x *cniTree, _ *cni.File) {
			x.r.dirs = func() []string { return []string{x.cni + "x", "", "/", "cni"} }
		}, "not in a CNI directory", ""},
		"nothing configured": {func(x *cniTree, _ *cni.File) { x.r.dirs = nil }, "not in a CNI directory", ""},
		"a way out":          {func(_ *cniTree, c *cni.File) { c.Dir += "/../" + filepath.Base(c.Dir) }, "not in a CNI directory", ""},
		"a name out":         {func(_ *cniTree, c *cni.File) { c.Name = "../results/" + c.Name }, "no file's name", ""},
		"dots":               {func(_ *cniTree, c *cni.File) { c.Name = ".." }, "no file's name", ""},
		"no name":            {func(_ *cniTree, c *cni.File) { c.Name = "" }, "no file's name", ""},
		"not archived":       {func(_ *cniTree, c *cni.File) { c.Err = "gone meanwhile" }, "gone meanwhile", ""},
		"lock": {func(x *cniTree, c *cni.File) {
			x.Must(os.Rename(at(*c), c.Dir+"/lock"))
			*c = x.read(c.Kind, c.Dir, "lock")
		}, "host-local", ""},
		"last reserved": {func(x *cniTree, c *cni.File) {
			x.Must(os.Rename(at(*c), c.Dir+"/last_reserved_ip.0"))
			*c = x.read(c.Kind, c.Dir, "last_reserved_ip.0")
		}, "host-local", ""},
	}
	for name, tc := range cases {
		for _, kind := range []cni.Kind{cni.Cache, cni.Address} {
			for way, no := range testkit.Ways {
				t.Run(fmt.Sprintf("%s/%s/%s", name, kind, way), func(t *testing.T) {
					x := newCNI(t, no)
					c := x.cache(1)
					if kind == cni.Address {
						c = x.address(1, "10.0.0.7")
						x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
					}
					tc.change(x, &c)
					before := testkit.Listing(t, x.Base)
					want := tc.result
					if want == "" {
						want = policy.Refused
					}
					ended(t, x.take(c), want, tc.words)
					if got := testkit.Listing(t, x.Base); !slices.Equal(got, before) {
						t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
					}
				})
			}
		}
	}
}

// TestRemoveCNIAcrossMounts checks that a configured directory may be behind a symbolic link, and its subdirectories
// on other file systems.
func TestRemoveCNIAcrossMounts(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			x := newCNI(t, no)
			for _, dir := range []string{x.results, x.network} {
				if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
					testkit.Skip(t, "nothing can be mounted: ", err)
				}
			}
			x.Must(os.Symlink(x.cni, x.Base+"/link"))
			x.r.dirs = func() []string { return []string{x.Base + "/link/", x.Base + "/link/networks"} }
			files := []cni.File{x.cache(1), x.address(1, "10.0.0.7")}
			files[0].Dir, files[1].Dir = x.Base+"/link/results", x.Base+"/link/networks/podnet"
			ended(t, x.take(files...), policy.Done)
			ended(t, x.restore(files...), policy.Done)
		})
	}
}

// TestRemoveCNIGone checks that a missing directory counts as empty and is not made.
func TestRemoveCNIGone(t *testing.T) {
	x := newCNI(t, false)
	files := []cni.File{x.cache(1), x.address(1, "10.0.0.7")}
	x.Must(os.RemoveAll(x.cni))
	ended(t, x.take(files...), policy.Gone)
	ended(t, x.restore(files...), policy.Refused, "create it")
	testkit.There(t, x.cni, false)
	x.Mkdir(x.cni)
	ended(t, x.take(files...), policy.Gone)
	ended(t, x.restore(files...), policy.Refused, "create it")
	testkit.There(t, x.results, false)
}

// TestRestoreCNIRefuses checks that a restore replaces no file.
func TestRestoreCNIRefuses(t *testing.T) {
	cases := map[string]struct {
		put   func(x *cniTree, at string)
		words string
	}{
		"a file":      {func(x *cniTree, at string) { x.Canary(at) }, "another"},
		"same size":   {func(x *cniTree, at string) { x.Must(os.WriteFile(at, make([]byte, 70), 0o600)) }, "another"},
		"a directory": {func(x *cniTree, at string) { x.Canary(at + "/in") }, "a directory"},
		"a symlink":   {func(x *cniTree, at string) { x.Must(os.Symlink("nowhere", at)) }, "a symbolic link"},
		"a FIFO":      {func(x *cniTree, at string) { x.Must(unix.Mkfifo(at, 0o600)) }, "a FIFO"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			x := newCNI(t, false)
			for _, c := range []cni.File{x.cache(1), x.address(1, "10.0.0.7")} {
				ended(t, x.take(c), policy.Done)
				tc.put(x, c.Dir+"/"+c.Name)
				before := testkit.Listing(t, x.cni)
				ended(t, x.restore(c), policy.Refused, tc.words)
				if got := testkit.Listing(t, x.cni); !slices.Equal(got, before) {
					t.Error(got)
				}
			}
		})
	}
	t.Run("no reason to leave the next", func(t *testing.T) {
		x := newCNI(t, false)
		for _, pair := range [][]cni.File{{x.cache(1), x.cache(2)}, {x.address(1, "10.0.0.7"), x.address(1, "fd00::7")}} {
			other := pair[0].Dir + "/" + pair[0].Name
			ended(t, x.take(pair...), policy.Done)
			x.Must(os.WriteFile(other, []byte("another's"), 0o600))
			out := x.restore(pair...)
			ended(t, out[:1], policy.Refused, "another")
			ended(t, out[1:], policy.Done)
			out = x.take(pair[0], x.read(pair[1].Kind, pair[1].Dir, pair[1].Name))
			ended(t, out[:1], policy.Refused, "changed or replaced")
			ended(t, out[1:], policy.Done)
		}
	})
	t.Run("made meanwhile", func(t *testing.T) {
		x := newCNI(t, false)
		c := x.cache(1)
		ended(t, x.take(c), policy.Done)
		x.r.guards.before = testkit.Outside(func(op, _ string) {
			if op == "renameat2" {
				x.Must(os.WriteFile(c.Dir+"/"+c.Name, []byte("new"), 0o600))
			}
		})
		ended(t, x.restore(c), policy.Refused, "made meanwhile")
		if b, err := os.ReadFile(c.Dir + "/" + c.Name); string(b) != "new" || err != nil {
			t.Error(string(b), err)
		}
		testkit.There(t, c.Dir+"/"+asideName(c.Name), false)
	})
}

// TestRestoreCNIDiskFull checks that a full disk is an error that leaves no partial file, and that the rest is tried.
func TestRestoreCNIDiskFull(t *testing.T) {
	x := newCNI(t, false)
	if err := unix.Mount("tmpfs", x.results, "tmpfs", 0, "size=64k"); err != nil {
		testkit.Skip(t, "nothing can be mounted: ", err)
	}
	small, big := x.cache(1), x.cache(2)
	ended(t, x.take(small, big), policy.Done)
	big.Data = make([]byte, 1<<20)
	out := x.restore(big, small)
	ended(t, out[:1], policy.Failed, "full")
	ended(t, out[1:], policy.Done)
	if names := testkit.Listing(t, x.results); len(names) != 1 {
		t.Error(names)
	}
	x.Must(unix.Mount("", x.results, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	small = x.read(small.Kind, small.Dir, small.Name)
	other := small
	other.Name = "other"
	ended(t, x.take(small), policy.Failed, "read-only")
	ended(t, x.restore(other), policy.Failed, "read-only")
}

// TestRemoveCNIHangs checks that a call that does not return is awaited for the grace period, and that nothing more
// begins when it returns.
func TestRemoveCNIHangs(t *testing.T) {
	x := newCNI(t, false)
	testkit.Set(x.r.run, "grace", time.Millisecond)
	files := x.caches()
	hang, hangs := make(chan struct{}), make(chan struct{})
	x.r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "unlinkat" {
			close(hangs)
			<-hang
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-hangs; cancel() }()
	ended(t, x.r.remove(ctx, files), policy.Failed, "does not answer")
	ended(t, x.r.remove(ctx, files), policy.Refused, "before it was begun")
	close(hang)
	testkit.Must(t, x.r.run.Run(context.Background(), func() {})) // returns after its thread has ended
	testkit.There(t, x.results+"/"+files[0].Name, false)
	testkit.There(t, x.results+"/"+files[1].Name, true)
}

// caches makes two cache files, first the one with the lower inode, which is removed first.
func (x *cniTree) caches() []cni.File {
	x.T.Helper()
	files := []cni.File{x.cache(1), x.cache(2)}
	slices.SortFunc(files, func(a, b cni.File) int { return cmp.Compare(a.ID.Ino, b.ID.Ino) })
	return files
}
