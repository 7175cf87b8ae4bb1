package cni

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func (n *cniNode) files() []cni.File {
	n.t.Helper()
	var files []cni.File
	for _, l := range n.sweep() {
		files = append(files, l.Files...)
	}
	return files
}

// TestReadCNI reads what a sweep found, in both ways of opening.
func TestReadCNI(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		n := newCNINode(t)
		n.fallback = fallback
		n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.netns("x"))
		n.write("cni/results/cbr0-"+id("empty")+"-eth0", "")
		n.write("cni/multus/"+id("gone"), "[]")
		n.address("cbr0", "fd00::9", id("gone"))
		at := time.Now().Add(-48 * time.Hour).Truncate(time.Microsecond)
		testkit.Must(t, os.Chmod(n.path("cni/networks/cbr0/fd00::9"), 0o640))
		testkit.Must(t, os.Chtimes(n.path("cni/networks/cbr0/fd00::9"), at, at))
		// Root has no other users in a user namespace of one, and not in every container the right.
		owner := [2]uint32{uint32(os.Getuid()), uint32(os.Getgid())}
		if os.Chown(n.path("cni/networks/cbr0/fd00::9"), 12, 34) == nil {
			owner = [2]uint32{12, 34}
		} else if os.Getenv("REQUIRE_ROOT") == "1" {
			t.Error("REQUIRE_ROOT=1, and nothing can be given to other users")
		}
		files := n.files()
		got := n.reader().Contents(t.Context(), files)
		if len(got) != 4 || len(files) != 4 {
			t.Fatalf("%d contents of %d files", len(got), len(files))
		}
		for i, c := range got {
			want, err := os.ReadFile(files[i].Dir + "/" + files[i].Name)
			testkit.Must(t, err)
			if c.Err != "" || string(c.Data) != string(want) || c.File != files[i] {
				t.Errorf("%s: error %q, data %q", files[i].Name, c.Err, c.Data)
			}
			if c.File.Kind == cni.Address {
				if c.Mode != 0o640 || !c.Mtime.Equal(at) || c.Owner != owner {
					t.Errorf("mode %o, owner %v, %s", c.Mode, c.Owner, c.Mtime)
				}
			} else if c.Mode != 0o600 {
				t.Errorf("%s: mode %o", c.File.Name, c.Mode)
			}
		}
	}
}

// TestReadCNIChanged is a file that is another one by the time it is archived.
func TestReadCNIChanged(t *testing.T) {
	const path = "cni/networks/cbr0/10.244.0.9"
	for _, c := range []struct {
		name   string
		change func(n *cniNode)
		want   string
	}{
		{"gone", func(n *cniNode) { testkit.Must(n.t, os.Remove(n.path(path))) }, "no such file"},
		{"the address was given out anew", func(n *cniNode) {
			testkit.Must(n.t, os.Remove(n.path(path)))
			n.write(path, id("new")+"\r\neth0")
		}, "no longer what was judged"},
		{"written in place", func(n *cniNode) { n.write(path, id("new")+"\r\neth0") }, "no longer what was judged"},
		{"the same text again", func(n *cniNode) {
			testkit.Must(n.t, os.Rename(n.path(path), n.path("moved")))
			n.write(path, id("gone")+"\r\neth0")
		}, "no longer what was judged"},
		{"a symlink", func(n *cniNode) {
			testkit.Must(n.t, os.Rename(n.path(path), n.path("moved")))
			n.symlink(n.path("moved"), path)
		}, "a symlink"},
		{"a FIFO", func(n *cniNode) {
			testkit.Must(n.t, os.Remove(n.path(path)))
			testkit.Must(n.t, unix.Mkfifo(n.path(path), 0o600))
		}, "a FIFO"},
		{"its directory is a symlink", func(n *cniNode) {
			testkit.Must(n.t, os.Rename(n.path("cni/networks/cbr0"), n.path("moved")))
			n.symlink(n.path("moved"), "cni/networks/cbr0")
		}, "a symlink"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.address("cbr0", "10.244.0.9", id("gone"))
			files := n.files()
			c.change(n)
			got := n.reader().Contents(t.Context(), files)
			if len(got) != 1 || !strings.Contains(got[0].Err, c.want) || got[0].Data != nil || got[0].File != files[0] {
				t.Errorf("%+v, want an error with %q", got, c.want)
			}
		})
	}
}

// TestReadCNIOfAnother compares the content even where the file's identity agrees: inode numbers
// and times are given out again, on some file systems within the same tick.
func TestReadCNIOfAnother(t *testing.T) {
	const address, ifName = "cni/networks/cbr0/10.244.0.9", "eth0"
	n := newCNINode(t)
	n.address("cbr0", "10.244.0.9", id("gone"))
	uid, other := string(newUID()), string(newUID())
	cache, text := "cni/results/cbr0-"+id("gone")+"-"+ifName, cacheText("cbr0", id("gone"), ifName, uid, "")
	n.write(cache, text)
	judged := n.files()
	slices.SortFunc(judged, func(a, b cni.File) int { return strings.Compare(a.Name, b.Name) })
	for what, c := range map[string]struct {
		file       int
		path, text string
		changed    bool
	}{
		"the same address":      {0, address, id("gone") + "\r\neth0", false},
		"another's address":     {0, address, id("else") + "\r\neth0", true},
		"another interface's":   {0, address, id("gone") + "\r\neth1", true},
		"no ID any more":        {0, address, strings.Repeat("\x00", 70), true},
		"the same cache":        {1, cache, text, false},
		"another pod's cache":   {1, cache, strings.ReplaceAll(text, uid, other), true},
		"one byte of no weight": {1, cache, strings.Replace(text, "{", " ", 1), true},
		"cut off":               {1, cache, text[:len(text)-1], true},
	} {
		n.write(c.path, c.text)
		f := judged[c.file]
		var st unix.Statx_t
		testkit.Must(t, unix.Statx(unix.AT_FDCWD, n.path(c.path), 0, unix.STATX_BASIC_STATS, &st))
		f.ID = fileID(&st) // as if it were that of the file that was judged
		if got := n.reader().Contents(t.Context(), []cni.File{f})[0]; (got.Err == errChanged.Error()) != c.changed || c.changed != (got.Data == nil) {
			t.Errorf("%s: error %q, data %q", what, got.Err, got.Data)
		}
	}
	n.write(cache, text)
	untied := n.files()[slices.IndexFunc(n.files(), func(f cni.File) bool { return f.Kind == cni.Cache })]
	untied.Set(cni.Tied, policy.No, "", "")
	got := n.reader().Contents(t.Context(), []cni.File{untied, {Kind: cni.Cache, Dir: "/etc", Name: "passwd"}})
	if got[0].Err != errChanged.Error() || !strings.Contains(got[1].Err, "below no cache directory") {
		t.Errorf("%q and %q", got[0].Err, got[1].Err)
	}
}

// TestReadCNIBudget leaves what is too much for one batch to another.
func TestReadCNIBudget(t *testing.T) {
	n := newCNINode(t)
	text := cacheText("cbr0", id("gone"), "%", string(newUID()), n.netns("x"))
	for i := range 10 {
		ifName := "eth" + string(rune('0'+i))
		n.write("cni/results/cbr0-"+id("gone")+"-"+ifName, strings.ReplaceAll(text, "%", ifName)+strings.Repeat(" ", longCache-4096))
	}
	got := n.reader().Contents(t.Context(), n.files())
	later := slices.IndexFunc(got, func(c cni.Content) bool { return c.Later })
	if later != 8 || len(got) != 10 || got[8].Err != "" || got[8].Data != nil || got[8].File.Name == "" || got[7].Data == nil {
		t.Errorf("of %d, the first that is left is %d: %q", len(got), later, got[8].Err)
	}
}
