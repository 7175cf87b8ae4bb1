package look

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestStill checks a file that changes before it is archived.
func TestStill(t *testing.T) {
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
		}, "no longer what was judged"},
		{"a FIFO", func(n *cniNode) {
			testkit.Must(n.t, os.Remove(n.path(path)))
			testkit.Must(n.t, unix.Mkfifo(n.path(path), 0o600))
		}, "no longer what was judged"},
		{"its directory is a symlink", func(n *cniNode) {
			testkit.Must(n.t, os.Rename(n.path("cni/networks/cbr0"), n.path("moved")))
			n.symlink(n.path("moved"), "cni/networks/cbr0")
		}, "a symlink"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.contents = true
			n.address("cbr0", "10.244.0.9", id("gone"))
			files := n.files()
			if n.reader().StillCNI(t.Context(), files); len(files) != 1 || files[0].Err != "" {
				t.Fatalf("before: %+v", files)
			}
			c.change(n)
			if n.reader().StillCNI(t.Context(), files); !strings.Contains(files[0].Err, c.want) {
				t.Errorf("%q, want an error with %q", files[0].Err, c.want)
			}
		})
	}
}

// TestStillElsewhere checks that no file outside of the sweep's directories is read.
func TestStillElsewhere(t *testing.T) {
	n := newCNINode(t)
	files := []cni.File{{Kind: cni.Cache, Dir: "/etc", Name: "passwd"}}
	if n.reader().StillCNI(t.Context(), files); !strings.Contains(files[0].Err, "below no cache directory") {
		t.Errorf("%q", files[0].Err)
	}
}
