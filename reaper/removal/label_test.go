package removal

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const selinux = "security.selinux"

func labels(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var buf [256]byte
		n, err := unix.Lgetxattr(path, selinux, buf[:])
		if err != nil {
			return fmt.Errorf("label of %s: %w", path, err)
		}
		rel, err := filepath.Rel(dir, path)
		found[rel] = string(buf[:n])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// label gives everything in a directory an SELinux label of its own, like the MCS categories of a pod. Without
// SELinux the kernel accepts any label.
func label(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		testkit.Skip(t, "SELinux is enabled and refuses invented labels: ", err)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		n++
		if err == nil {
			err = unix.Lsetxattr(path, selinux, fmt.Appendf(nil, "system_u:object_r:container_file_t:s0:c%d,c%d", n, n+500), 0)
		}
		return err
	})
	if err != nil {
		testkit.Skip(t, "cannot set a label: ", err)
	}
	return labels(t, dir)
}

// TestLabelsStay checks that a pod's data comes back with its SELinux labels: without them the pod could not read its
// own files. Every move is a rename, which keeps the inode; a copy would get the quarantine's label.
func TestLabelsStay(t *testing.T) {
	same := func(t *testing.T, dir string, want map[string]string) {
		t.Helper()
		if got := labels(t, dir); len(want) < 3 || !maps.Equal(got, want) {
			t.Errorf("labels below %s: %v, want %v", dir, got, want)
		}
	}
	t.Run("park and put back", func(t *testing.T) {
		testkit.OnTmpfs(t)
		tr := newTree(t, "file etc-hosts 1", "file volumes/kubernetes.io~nfs/share/data 10", "link volumes/kubernetes.io~nfs/share/l nowhere")
		pod := tr.Pods + "/" + string(uidA)
		was := label(t, pod)
		r := tr.open(false)
		a := tr.parked(r)
		same(t, tr.Quar+"/"+entryA, was)
		a.Kind = policy.PutBack
		want(t, run1(t, r, a), policy.Done, "")
		same(t, pod, was)
	})
	t.Run("made again", func(t *testing.T) {
		testkit.OnTmpfs(t)
		tr := newTree(t, "file etc-hosts 1", "file volumes/kubernetes.io~nfs/share/data 10")
		pod := tr.Pods + "/" + string(uidA)
		was := label(t, pod)
		r := tr.open(false)
		a := tr.parked(r)
		a.Kind = policy.PutBack
		tr.Pod(uidA, "dir volumes", "dir plugins")
		newer := label(t, pod)
		o := run1(t, r, a)
		want(t, o, policy.Conflict, "")
		same(t, pod, was)
		same(t, tr.Quar+"/"+o.Conflict, newer)
	})
	t.Run("strip", func(t *testing.T) {
		testkit.OnTmpfs(t)
		tr := newTree(t, "file etc-hosts 1", "file volumes/kubernetes.io~nfs/share/data 10")
		was := label(t, tr.Pods+"/"+string(uidA))
		r := tr.open(false)
		a := tr.parked(r)
		a.Kind, a.Take = policy.Strip, contents.TakeStrip
		want(t, run1(t, r, a), policy.Partly, "")
		delete(was, "etc-hosts")
		same(t, tr.Quar+"/"+entryA, was)
	})
	t.Run("a leaf", func(t *testing.T) {
		testkit.OnTmpfs(t)
		tr := newTree(t, heldPod...)
		pod := tr.Pods + "/" + string(uidA)
		was := label(t, pod)
		content := labels(t, pod+"/"+leafNFS)
		delete(content, ".")
		r, a := tr.open(false), tr.clearAction(leafNFS)
		want(t, run1(t, r, a), policy.Done, "")
		for path, l := range content {
			var buf [256]byte
			n, err := unix.Lgetxattr(filepath.Join(tr.Quar, entryLeaf, leafNFS, path), selinux, buf[:])
			if err != nil || string(buf[:n]) != l {
				t.Errorf("%s in quarantine: %q, %v, want %q", path, buf[:max(n, 0)], err, l)
			}
		}
		want(t, run1(t, r, back(a)), policy.Done, "")
		same(t, pod, was)
	})
}
