package cni

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// TestReadCNIOfAnother compares the container even where the file's identity agrees: inode
// numbers and times are given out again, on some file systems within the same tick.
func TestReadCNIOfAnother(t *testing.T) {
	n := newCNINode(t)
	n.address("cbr0", "10.244.0.9", id("gone"))
	files := n.files()
	files[0].Container = id("another")
	files = append(files, cni.File{Kind: cni.Cache, Dir: "/etc", Name: "passwd"})
	got := n.reader().Contents(t.Context(), files)
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
