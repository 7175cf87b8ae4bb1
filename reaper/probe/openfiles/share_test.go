package openfiles

import (
	"errors"
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

// process makes a process of a user in the pod's cgroup that sees all pods or only its own.
func (n *node) process(uid string, pod parsers.PodUID, all bool) {
	n.T.Helper()
	n.Mkdir("proc/7/fd", "proc/7/ns", "proc/self/ns")
	n.Write("proc/7/status", "Name:\tx\nUid:\t"+strings.Repeat(uid+"\t", 4)+"\nCapPrm:\t0\nx\n")
	n.Write("proc/7/cgroup", "0::/kubepods/pod"+string(pod)+"/c\n")
	n.Write("proc/7/maps", "")
	text, err := os.ReadFile("/proc/self/mountinfo")
	must(n.T, err)
	n.Write("proc/self/mountinfo", string(text))
	if !all {
		text = []byte("1 1 0:9 / / rw - overlay o rw\n")
	}
	n.Write("proc/7/mountinfo", string(text))
	for link, to := range map[string]string{"7/cwd": "/x", "7/exe": "/x", "7/root": "/", "7/ns/user": "user:[1]", "self/ns/user": "user:[1]"} {
		must(n.T, os.Symlink(to, n.Path("proc/"+link)))
	}
	n.ProcDir = n.Path("proc")
}

// each reads process 7 until it exceeds its share.
func (s *scan) each(t *testing.T, do func(p *procfs.Process) error) error {
	t.Helper()
	_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) { return false, do(p) },
		func(p *procfs.Process, why error) { s.partlyRead(p, why) })
	return err
}

// TestOverItsShare checks that what cannot be read of a process is a doubt about its own pod, and about the node only
// if the process sees others' directories and may enter them.
func TestOverItsShare(t *testing.T) {
	for name, c := range map[string]struct {
		uid       string
		all, node bool
	}{
		"a user": {"65534", true, false}, "root": {"0", true, true}, "root of a container": {"0", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, own, other := newNode(t), newUID(), newUID()
			n.Mkdir(n.PodDir(own), n.PodDir(other))
			n.process(c.uid, own, c.all)
			s := n.scan(own, other)
			must(t, s.each(t, func(*procfs.Process) error { return procfs.ErrShare }))
			s.read = 1
			if c.node != (s.Err != nil) || c.node && !strings.Contains(s.Err.Error(), "of pod "+string(own)) {
				t.Errorf("the node's error is %v", s.Err)
			}
			if f := s.Fact(other, nil); (f.Truth == policy.No) == c.node {
				t.Errorf("another pod: %s (%s)", f.Truth, f.Detail)
			}
			if f := s.Fact(own, nil); f.Truth != policy.Unknown || !c.node && !strings.Contains(f.Detail, string(own)) {
				t.Errorf("its own pod: %s (%s)", f.Truth, f.Detail)
			}
		})
	}
}

// TestStrangersDoubts checks that an unresponsive file is a doubt about the pod in its path, unless another user
// chose the path or keeps moving the file. A pod's own file counts in any process.
func TestStrangersDoubts(t *testing.T) {
	for _, uid := range []string{"0", "65534"} {
		n, own, dead, held := newNode(t), newUID(), newUID(), newUID()
		n.Mkdir(n.PodDir(own), "x/"+string(dead))
		n.Write(n.PodDir(dead)+"/f", "x")
		n.Write(n.PodDir(held)+"/f", "x")
		n.process(uid, own, true)
		s := n.scan(own, dead, held)
		s.places.hang = true // an earlier file has not answered
		must(t, s.each(t, func(p *procfs.Process) error {
			s.hint(p, link{process: "7"}, n.Path("x/"+string(dead)+"/f"), "a mapped file")
			s.hint(p, link{process: "7"}, n.Path("x/"+string(dead)+"/gone (deleted)"), "a mapped file")
			st, err := beneath.StatName(unix.AT_FDCWD, n.Path(n.PodDir(held)+"/f"))
			must(t, err)
			s.hint(p, link{process: "7", id: idOf(&st), sure: true}, n.Path("x/"+string(held)+"/f"), "a mapped file")
			return nil
		}))
		if got := s.doubts[dead] != ""; got != (uid == "0") {
			t.Errorf("user %s: doubt about the pod in the path: %q", uid, s.doubts[dead])
		}
		if s.pods[held] == "" {
			t.Errorf("user %s: a pod's file was not found", uid)
		}
	}
}

// TestMappedFilesOfManyPods checks that pods which together map more files than are held in memory cause a doubt about
// themselves only, also in what is read of the node's own processes.
func TestMappedFilesOfManyPods(t *testing.T) {
	n, own, dead := newNode(t), newUID(), newUID()
	n.Mkdir(n.PodDir(own), n.PodDir(dead))
	n.process("65534", own, true)
	n.Write("proc/7/maps", "0-1 r--s 0 08:01 1 /f\n")
	s := n.scan(own, dead)
	s.devs = map[uint64]bool{unix.Mkdev(8, 1): true}
	s.maps = s.newMapReader()
	for i := range mostStrays {
		s.strays[inode{unix.Mkdev(8, 1), uint64(i + 2)}] = stray{process: "7"}
	}
	must(t, s.each(t, func(p *procfs.Process) error { _, err := s.mapsOf(p); return err }))
	testkit.WantDetail(t, s.Fact(dead, nil), "")
	if f := s.Fact(own, nil); f.Truth != policy.Unknown {
		t.Errorf("the pod that holds more: %+v", f)
	}
}

// TestRegionOfPods checks the region of an open directory from mountinfo.
func TestRegionOfPods(t *testing.T) {
	n := newNode(t)
	n.Mkdir("a/b", "c")
	n.bind("a", "c")
	h := n.handle("c/b")
	s := n.scan()
	s.places.pods, s.places.quarantine = h, nil
	r := s.regions()
	if len(r) != 1 || !strings.HasSuffix(r[0].Path, "/a/b") && r[0].Path != "/a/b" || !strings.Contains(r[0].Dev, ":") || r[0].FSType == "" {
		t.Errorf("%+v", r)
	}
}

// mappedBy reads the mappings of process 7.
func mappedBy(t *testing.T, s *scan) {
	t.Helper()
	must(t, s.each(t, func(p *procfs.Process) error { _, err := s.mapsOf(p); return err }))
}

// TestMappedNameOnly checks that a mapped file of another file system or inode is not a pod's because of its name.
func TestMappedNameOnly(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Write(n.PodDir(uid)+"/etc-hosts", "x")
	n.process("0", newUID(), true)
	st, err := beneath.StatName(unix.AT_FDCWD, n.Path(n.PodDir(uid)+"/etc-hosts"))
	must(t, err)
	path, dev := "/j/"+string(uid)+"/etc-hosts", fmt.Sprintf("%x:%x", st.Dev_major, st.Dev_minor)
	for line, held := range map[string]bool{
		"0-1 r--s 0 07:00 14 " + path:                                  false,
		"0-1 r--s 0 " + dev + " 14 " + path:                            false,
		fmt.Sprintf("0-1 r--s 0 %s %d %s", dev, st.Ino, path):          true,
		"0-1 r--s 0 " + dev + " 15 /j/" + string(uid) + "/x (deleted)": false,
	} {
		n.Write("proc/7/maps", line+"\n")
		s := n.scan(uid)
		s.devs = map[uint64]bool{beneath.DevOf(&st): true}
		s.maps = s.newMapReader()
		mappedBy(t, s)
		if s.Err != nil || len(s.pods)+len(s.doubts) > 0 != held {
			t.Errorf("%s: %v, %v %v", line, s.Err, s.pods, s.doubts)
		}
	}
}

// TestManyMappedFiles checks that a process may map any number of files on the pods' file system, and that the number
// held in memory is bounded per owner.
func TestManyMappedFiles(t *testing.T) {
	n, own, dead := newNode(t), newUID(), newUID()
	n.Mkdir(n.PodDir(own), n.PodDir(dead))
	n.process("65534", own, true)
	var maps strings.Builder
	for i := range 2 * procfs.MostHeld {
		fmt.Fprintf(&maps, "0-1 r--s 0 08:01 %d /f\n", i+1)
	}
	n.Write("proc/7/maps", maps.String())
	s := n.scan(own, dead)
	s.devs = map[uint64]bool{unix.Mkdev(8, 1): true}
	s.maps = s.newMapReader()
	var over error
	_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) { _, err := s.mapsOf(p); return false, err },
		func(_ *procfs.Process, why error) { over = why })
	if must(t, err); !errors.Is(over, procfs.ErrShare) || len(s.strays) > procfs.MostHeld {
		t.Errorf("%v, and %d are in memory", over, len(s.strays))
	}
	testkit.WantDetail(t, s.Fact(dead, nil), "")
}
