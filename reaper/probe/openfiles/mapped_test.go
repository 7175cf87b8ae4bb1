package openfiles

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMapped checks that a file that is mapped and closed, which only /proc/PID/maps shows, is found by its path, or
// by its inode number if the path contains no pod.
func TestMapped(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	deleted, alias, linked, detached, other := newUID(), newUID(), newUID(), newUID(), newUID()
	n.Mkdir("alias", "bound")
	for _, uid := range []parsers.PodUID{deleted, alias, linked, detached, other} {
		n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/a\nb", "x")
	}
	file := func(dir string, uid parsers.PodUID) string {
		return n.Path(dir + "/" + string(uid) + "/volumes/kubernetes.io~empty-dir/d/a\nb")
	}
	n.bind("kubelet/pods", "alias")
	must(t, os.Link(file("kubelet/pods", linked), n.Path("link")))
	n.Write("x/"+string(other)+"/volumes/kubernetes.io~empty-dir/d/a\nb", "x")
	holder(t, "a mapped file", file("kubelet/pods", deleted))
	must(t, os.Remove(file("kubelet/pods", deleted)))
	holder(t, "a mapped file", file("alias", alias))
	holder(t, "a mapped file", n.Path("link"))
	holder(t, "a mapped file", file("x", other))
	must(t, unix.Mount(n.Path(n.PodDir(detached))+"/volumes/kubernetes.io~empty-dir/d", n.Path("bound"), "", unix.MS_BIND, ""))
	holder(t, "a mapped file", n.Path("bound/a\nb"))
	must(t, unix.Unmount(n.Path("bound"), unix.MNT_DETACH))
	a := n.read()
	for _, uid := range []parsers.PodUID{alias, linked, detached} {
		n.want(a, uid, policy.Yes, "as a mapped file")
	}
	n.unused(a, other)
	n.unused(a, deleted)
	t.Run("the guard off", func(t *testing.T) {
		s := n.scan(deleted, alias, linked, detached)
		_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) {
			_, ended, err := s.process(p)
			return ended, err
		}, func(p *procfs.Process, why error) { t.Error(p.PID, why) })
		if must(t, err); len(s.pods)+len(s.doubts)+len(s.strays) > 0 || s.Err != nil {
			t.Errorf("found by the open files alone: %+v", s.Answer)
		}
	})
}

// TestMappedDeep checks that the path of a mapping may have any length and does not hide the next ones.
func TestMappedDeep(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Write(n.PodDir(uid)+"/f", "x")
	st, err := beneath.StatName(unix.AT_FDCWD, n.Path(n.PodDir(uid)+"/f"))
	must(t, err)
	deep := "/" + strings.Repeat("x", 200<<10)
	n.process("65534", newUID(), true)
	n.Write("proc/7/maps", fmt.Sprintf("0-1 r--s 0 ff:ff 1 %s\n0-1 r--s 0 %x:%x %d /link\n", deep, st.Dev_major, st.Dev_minor, st.Ino))
	s := n.scan(uid)
	s.devs[beneath.DevOf(&st)] = true
	mappedBy(t, s)
	if _, met := s.strays[idOf(&st)]; !met {
		t.Errorf("the mapping after a deep path was not found: %v", s.strays)
	}
}

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]string{
		"7f14c2244000-7f14c2245000 r--s 00000000 07:00 14                         /a b":    "/a b",
		"7f14c2244000-7f14c2245000 r--s 00000000 07:00 14 ":                                "",
		"7ffef4666000-7ffef4687000 rw-p 00000000 00:00 0                          [stack]": "[stack]",
	} {
		m, ok := parseMapping([]byte(line))
		if !ok || string(m.path) != want {
			t.Errorf("%q: %v, %q", line, ok, m.path)
		}
		if _, ok := m.id(); !ok {
			t.Errorf("%q has no inode", line)
		}
	}
	if m, ok := parseMapping([]byte("a b c")); ok {
		t.Errorf("%+v", m)
	}
	m, _ := parseMapping([]byte("0-1 r--s 00000000 fd:1f 4294967296 /f"))
	if id, ok := m.id(); !ok || id != (inode{unix.Mkdev(0xfd, 0x1f), 1 << 32}) {
		t.Errorf("%+v, %v", id, ok)
	}
}
