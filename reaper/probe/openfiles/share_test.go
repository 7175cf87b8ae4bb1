package openfiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// TestShare: a process over its share is a doubt about its own pod. It is one about the node only
// where it may enter the directories of others and has them before it.
func TestShare(t *testing.T) {
	const pods = "/var/lib/kubelet/pods"
	const root, user, usual, none, all = "0", "65534", "a80425fb", "0", "1ffffffffff"
	for name, use := range map[string]func(s *scan) error{
		"maps, bytes":   func(s *scan) error { s.limits.bytes = 1; return mapsOf7(s) },
		"maps, entries": func(s *scan) error { s.limits.strays = 0; return mapsOf7(s) },
		"maps, time":    func(s *scan) error { s.until = time.Now(); return mapsOf7(s) },
		"fds, entries":  func(s *scan) error { s.limits.entries = 1; _, _, err := s.files("7"); return err },
		"fds, time":     func(s *scan) error { s.until = time.Now(); _, _, err := s.files("7"); return err },
		"the owner's":   func(s *scan) error { s.spent[s.account()] = time.Hour; return s.begin("7") },
		"the look's":    func(s *scan) error { s.deadline = time.Now(); return s.begin("7") },
	} {
		for whose, c := range map[string]struct {
			uid, caps, userNS string
			pod, node         bool
			shows, root       string
		}{
			"a stranger":                         {user, none, "1", false, false, "/", "/"},
			"the node's root":                    {root, all, "1", false, true, "/", "/"},
			"a user with a capability":           {user, all, "1", false, true, "/", "/"},
			"root of its own user namespace":     {"100000", all, "2", false, false, "/", "/"},
			"a container's root":                 {root, usual, "1", true, false, "", "/"},
			"a container with all pods":          {root, usual, "1", true, true, pods, "/"},
			"a container with another pod":       {root, none, "1", true, true, pods + "/" + string(newUID()), "/"},
			"a container with the node's root":   {root, usual, "1", true, true, "/", "/"},
			"a container of a user with all":     {user, none, "1", true, false, "/", "/"},
			"a container with a user namespace":  {"100000", all, "2", true, false, pods, "/"},
			"a privileged one with its own only": {root, all, "1", true, false, "", "/"},
			"a privileged one in a chroot":       {root, all, "1", true, true, "", "/x"},
		} {
			t.Run(name+", "+whose, func(t *testing.T) {
				n, own, other := newNode(t), newUID(), newUID()
				n.Mkdir(n.PodDir(own), n.PodDir(other), "proc/7/fd", "proc/7/ns", "proc/self/ns")
				st, err := beneath.StatName(unix.AT_FDCWD, n.Path(n.PodDir(other)))
				must(t, err)
				n.Write("proc/7/maps", fmt.Sprintf("0-1 r--s 0 %x:%x 1 /f\n0-1 r--s 0 %x:%x 2 /g\n", st.Dev_major, st.Dev_minor, st.Dev_major, st.Dev_minor))
				n.Write("proc/7/status", "Name:\tx\nUid:\t"+strings.Repeat(c.uid+"\t", 4)+"\nCapPrm:\t"+c.caps+"\nx\n")
				shows := "1 1 0:9 / / rw - overlay o rw\n2 1 8:1 " + pods + "/" + string(own) + "/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
				if c.shows != "" {
					shows += "3 1 8:1 " + c.shows + " /j rw - ext4 /dev/sda1 rw\n"
				}
				n.Write("proc/7/mountinfo", shows)
				if c.pod {
					n.Write("proc/7/cgroup", "0::/kubepods/pod"+string(own)+"/c\n")
				}
				for _, link := range []string{"proc/7/cwd", "proc/7/exe", "proc/7/fd/1", "proc/7/fd/2"} {
					must(t, os.Symlink("/x", n.Path(link)))
				}
				must(t, os.Symlink(c.root, n.Path("proc/7/root")))
				must(t, os.Symlink("user:["+c.userNS+"]", n.Path("proc/7/ns/user")))
				must(t, os.Symlink("user:[1]", n.Path("proc/self/ns/user")))
				n.ProcDir = n.Path("proc")
				s := n.scan(own, other)
				s.shown = []procfs.Region{{Dev: "8:1", Path: pods, FSType: "ext4"}}
				s.text = bufio.NewReader(nil)
				s.devs[unix.Mkdev(st.Dev_major, st.Dev_minor)] = device{beneath.DevOf(&st), true}
				must(t, s.begin("7"))
				err = use(s)
				if !errors.Is(err, errShare) {
					t.Fatalf("%v: the share is not used up", err)
				}
				s.Err = s.over("7", err)
				s.read = 1
				s.Name(map[parsers.PodUID]policy.PodName{own: {Namespace: "shop", Name: "web-0"}})
				if c.pod && c.node && !strings.Contains(s.Err.Error(), "shop/web-0, "+string(own)) {
					t.Errorf("it names no pod: %v", s.Err)
				}
				if got := s.Err != nil; got != c.node {
					t.Errorf("a doubt about the node is %v, want %v", got, c.node)
				}
				if f := s.Fact(other, nil); (f.Truth == policy.No) == c.node {
					t.Errorf("another pod is in use: %s (%s)", f.Truth, f.Detail)
				}
				if f := s.Fact(own, nil); c.pod && (f.Truth != policy.Unknown || !c.node && !strings.Contains(f.Detail, "shop/web-0")) {
					t.Errorf("its own pod is in use: %s (%s)", f.Truth, f.Detail)
				}
			})
		}
	}
}

// TestRegionOfPods: what mountinfo has for an open directory.
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

// TestShareOfOwner: many slow processes of one user or pod use up what one has. Who did is read last
// in the next look, and others have all they need.
func TestShareOfOwner(t *testing.T) {
	n := newNode(t)
	n.Slow = &procfs.Slow{}
	own := newUID()
	for pid, uid := range map[string]string{"7": "0", "8": "5", "9": "65534"} {
		n.Mkdir("proc/" + pid)
		n.Write("proc/"+pid+"/status", "Name:\tx\nUid:\t"+strings.Repeat(uid+"\t", 4)+"\nCapPrm:\t0\nx\n")
		n.Write("proc/"+pid+"/stat", pid+" (x) S 1"+strings.Repeat(" 1", 30))
		if pid != "9" {
			n.Write("proc/"+pid+"/cgroup", "0::/kubepods/pod"+string(own)+"/c\n")
		}
	}
	n.ProcDir = n.Path("proc")
	s := n.scan()
	must(t, s.begin("7"))
	s.began = s.began.Add(-n.Guard.Limit() / 4)
	s.end("7", nil)
	if err := s.begin("8"); !errors.Is(err, errShare) {
		t.Errorf("%v: another process of the pod has a share of its own", err)
	}
	s.end("8", errShare)
	if err := s.begin("9"); err != nil {
		t.Errorf("%v: a stranger has none", err)
	}
	s.end("9", nil)
	var order []string
	_, err := procfs.EachLast(t.Context(), n.ProcDir, s.proc, n.scan().last, func(pid string) bool { order = append(order, pid); return false })
	if must(t, err); len(order) != 3 || order[2] != "8" {
		t.Errorf("read in the order of %v", order)
	}
	n.Write("proc/8/stat", "8 (x) S 1"+strings.Repeat(" 2", 30))
	if n.scan().last("8") {
		t.Error("the PID is another process's by now, and read last")
	}
}

func mapsOf7(s *scan) error {
	_, err := s.maps("7")
	return err
}

// TestMapsAreStreamed: 64 MiB of mappings with paths of 3,900 bytes take next to no memory.
func TestMapsAreStreamed(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid), "proc/7")
	f, err := os.Create(n.Path("proc/7/maps"))
	must(t, err)
	w := bufio.NewWriter(f)
	for i := range 15_000 {
		_, err := io.WriteString(w, "0-1 r--s 0 ff:ff "+strconv.Itoa(i+1)+" /"+strings.Repeat("x", 3900)+"\n")
		must(t, err)
	}
	must(t, errors.Join(w.Flush(), f.Close()))
	n.ProcDir = n.Path("proc")
	s := n.scan(uid)
	s.text = bufio.NewReaderSize(nil, 64<<10)
	must(t, s.begin("7"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(t, mapsOf7(s))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
}

// TestMappedNameOnly: a mapped file of another file system, or of another inode, is no pod's for
// its name.
func TestMappedNameOnly(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Write(n.PodDir(uid)+"/etc-hosts", "x")
	s := n.scan(uid)
	must(t, s.begin("7"))
	st, err := beneath.StatName(unix.AT_FDCWD, n.Path(n.PodDir(uid)+"/etc-hosts"))
	must(t, err)
	s.devs = map[uint64]device{unix.Mkdev(8, 1): {beneath.DevOf(&st), true}}
	path := "/j/" + string(uid) + "/etc-hosts"
	for line, held := range map[string]bool{
		"0-1 r--s 0 07:00 14 " + path:                            false,
		"0-1 r--s 0 08:01 14 " + path:                            false,
		fmt.Sprintf("0-1 r--s 0 08:01 %d %s", st.Ino, path):      true,
		"0-1 r--s 0 08:01 15 /j/" + string(uid) + "/x (deleted)": false,
	} {
		s.pods, s.doubts = map[parsers.PodUID]string{}, map[parsers.PodUID]string{}
		if _, err := s.mapping("1", []byte(line), inode{}); err != nil || len(s.pods)+len(s.doubts) > 0 != held {
			t.Errorf("%s: %v, %v %v", line, err, s.pods, s.doubts)
		}
	}
}
