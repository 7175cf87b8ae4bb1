package procfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const pods = "/var/lib/kubelet/pods"

// made is process 7 of an artificial proc directory.
type made struct{ uid, caps, userNS, root, cgroup, mounts string }

// shares makes the proc directory.
func (m made) shares(t *testing.T) *Shares {
	t.Helper()
	dir := testkit.ProcMounts(t, map[string]string{"7": m.mounts})
	for _, name := range []string{"7/ns", "self/ns", "cgroup"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	testkit.Must(t, os.Symlink("user:["+m.userNS+"]", filepath.Join(dir, "7/ns/user")))
	testkit.Must(t, os.Symlink("user:[1]", filepath.Join(dir, "self/ns/user")))
	testkit.Must(t, os.Symlink(m.root, filepath.Join(dir, "7/root")))
	testkit.WriteText(t, filepath.Join(dir, "7/cgroup"), "4:memory:/x\n0::"+m.cgroup+"\n")
	testkit.WriteText(t, filepath.Join(dir, "7/status"), "Name:\tx\nUid:\t"+strings.Repeat(m.uid+"\t", 4)+"\nCapPrm:\t"+m.caps+"\nx\n")
	proc, err := Open(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { beneath.Close(proc) })
	return NewShares(dir, proc, dir+"/cgroup", time.Minute)
}

// TestWhose checks which process may enter others' directories, is in another user namespace, or sees more pods than
// its own.
func TestWhose(t *testing.T) {
	const root, user, usual, none, all = "0", "65534", "a80425fb", "0", "1ffffffffff"
	own, other := testkit.NewUID(), testkit.NewUID()
	in := "/kubepods/pod" + string(own) + "/c"
	region := []Region{{Dev: "8:1", Path: pods, FSType: "ext4"}}
	for name, c := range map[string]struct {
		uid, caps, userNS, cgroup, shows string
		enters, apart, reaches           bool
	}{
		"a stranger":                        {user, none, "1", "/", "/", false, false, true},
		"the node's root":                   {root, all, "1", "/", "/", true, false, true},
		"a user with a capability":          {user, all, "1", "/", "/", true, false, true},
		"root of its own user namespace":    {"100000", all, "2", "/", "/", false, true, true},
		"user ID 0 in another one":          {root, none, "2", in, "", true, true, false},
		"a container's root":                {root, usual, "1", in, "", true, false, false},
		"a container with all pods":         {root, usual, "1", in, pods, true, false, true},
		"a container with another pod":      {root, none, "1", in, pods + "/" + string(other) + "/v", true, false, true},
		"one with a name like its own":      {root, none, "1", in, pods + "/" + string(own) + "x", true, false, true},
		"a container with the node's root":  {root, usual, "1", in, "/", true, false, true},
		"a container of a user with all":    {user, none, "1", in, "/", false, false, true},
		"a container with a user namespace": {"100000", all, "2", in, pods, false, true, true},
		"with a mount namespace's file":     {root, none, "1", in, "mnt:[4]", true, false, true},
		"with one in a user namespace":      {root, none, "2", in, "mnt:[4]", true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := "1 1 0:9 / / rw - overlay o rw\n" + testkit.MountLine(2, pods+"/"+string(own)+"/etc-hosts", "/etc/hosts")
			if c.shows != "" {
				mounts += testkit.MountLine(3, c.shows, "/j")
			}
			s := made{c.uid, c.caps, c.userNS, "/", c.cgroup, mounts}.shares(t)
			o, err := s.Whose("7")
			testkit.Must(t, err)
			if o.Enters != c.enters || o.Apart != c.apart || o.UID != c.uid || (o.Pod == own) != (c.cgroup == in) {
				t.Errorf("%+v", o)
			}
			if got := s.shows("7", region, o); got != c.reaches {
				t.Errorf("the process sees the pods: %v, want %v", got, c.reaches)
			}
		})
	}
	if o, err := (made{root, none, "1", "/", "/", ""}).shares(t).Whose("8"); err == nil {
		t.Errorf("owner of an ended process: %+v", o)
	}
}

// TestSetuid checks that the files and the reading time of a setuid program belong to the user who started it.
func TestSetuid(t *testing.T) {
	for ids, enters := range map[string]bool{"1000 0 0 0": false, "1000 1000 0 1000": false, "0 0 0 0": true, "0 1000 0 1000": true, "1000 1000 1000 0": true} {
		s := made{"0", "1ffffffffff", "1", "/", "/", ""}.shares(t)
		testkit.WriteText(t, s.dir+"/7/status", "Name:\tx\nUid:\t"+strings.ReplaceAll(ids, " ", "\t")+"\nCapPrm:\t1ffffffffff\nx\n")
		o, err := s.Whose("7")
		testkit.Must(t, err)
		if o.Enters != enters {
			t.Errorf("%s: %+v", ids, o)
		}
		if first, _, _ := strings.Cut(ids, " "); os.Geteuid() == 0 && s.payer("7").name != "user ID "+first {
			t.Errorf("%s: %s pays", ids, s.payer("7").name)
		}
	}
}

// TestShowsTooMuch checks that a process with too much to read is a doubt about the node, unless any user can mount
// that much.
func TestShowsTooMuch(t *testing.T) {
	long := "/" + strings.Repeat("d", 8<<10)
	mounts := "1 1 0:9 / / rw - overlay o rw\n" + strings.Repeat("2 1 0:9 / "+long+" rw - tmpfs t rw\n", showsLimit>>13+1)
	s := made{"0", "0", "2", "/", "/", mounts}.shares(t)
	for _, apart := range []bool{true, false} {
		if got := s.shows("7", []Region{{Dev: "8:1", Path: pods}}, Owner{Enters: true, Apart: apart}); got == apart {
			t.Errorf("apart %v: the process sees the pods: %v", apart, got)
		}
	}
}

// TestShowsAtAThread checks that the other threads are read if the first one has ended.
func TestShowsAtAThread(t *testing.T) {
	s := made{"0", "0", "1", "/", "/", ""}.shares(t)
	testkit.Must(t, os.Remove(s.dir+"/7/root"))
	testkit.Must(t, errors.Join(os.MkdirAll(s.dir+"/7/task/8", 0o755), os.Mkdir(s.dir+"/7/task/7", 0o755), os.Symlink("/", s.dir+"/7/task/8/root")))
	testkit.WriteText(t, s.dir+"/7/task/8/mountinfo", testkit.MountLine(1, "/", "/"))
	region := []Region{{Dev: "8:1", Path: pods}}
	if !s.shows("7", region, Owner{Enters: true}) {
		t.Error("nothing was read")
	}
	testkit.Must(t, os.RemoveAll(s.dir+"/7/task"))
	if s.shows("7", region, Owner{Enters: true}) {
		t.Error("the process counts as ended")
	}
}

// TestShowsOutsideOfRoot checks that a process with another root shows its mount namespace, whatever is mounted at
// its root.
func TestShowsOutsideOfRoot(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	testkit.NeedRoot(t)
	testkit.NeedListing(t)
	dir := t.TempDir()
	testkit.Mount(t, "tmpfs", dir, "tmpfs", 0, "")
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	testkit.Must(t, err)
	defer beneath.Close(fd)
	here, err := RegionOf("/proc", fd)
	testkit.Must(t, err)
	elsewhere := Region{Dev: "999:1", Path: "/", FSType: "ext4"}
	proc, err := Open("/proc")
	testkit.Must(t, err)
	defer beneath.Close(proc)
	s := NewShares("/proc", proc, "/", time.Minute)
	pid := jailed(t)
	for shown, region := range map[bool]Region{true: here, false: elsewhere} {
		if got := s.shows(pid, []Region{region}, Owner{}); got != shown {
			t.Errorf("%+v: %v", region, got)
		}
	}
}

// TestPodOf checks that only a cgroup made by root or by this process's user is a pod's.
func TestPodOf(t *testing.T) {
	testkit.NeedUsers(t)
	own, forged, outer := testkit.NewUID(), testkit.NewUID(), testkit.NewUID()
	nested := "0::/kubepods/pod" + string(outer) + "/node"
	for name, c := range map[string]struct {
		line, theirs string
		want         parsers.PodUID
	}{
		"of a node nested in a pod":   {nested + "/kubepods/pod" + string(own) + "/c", "", own},
		"that node's own":             {nested + "/kubelet", "", ""},
		"by the cgroupfs driver":      {"0::/kubepods/pod" + string(own) + "/c", "", own},
		"by systemd":                  {"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(string(own), "-", "_") + ".slice/c.scope", "", own},
		"seen from a cgroup below":    {"0::/../../pod" + string(own) + "/c", "", own},
		"a user's own":                {"0::/user.slice/pod" + string(forged) + "/c", "user.slice/pod" + string(forged), ""},
		"of version 1":                {"1:name=systemd:/user/pod" + string(forged), "systemd/user/pod" + string(forged), ""},
		"unified beside version 1":    {"0::/user/pod" + string(forged), "unified/user/pod" + string(forged), ""},
		"a pod's own below its first": {"0::/kubepods/pod" + string(own) + "/pod" + string(forged), "kubepods/pod" + string(own) + "/pod" + string(forged), own},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.Must(t, os.MkdirAll(filepath.Join(dir, "7"), 0o755))
			testkit.Must(t, os.MkdirAll(filepath.Join(dir, "1"), 0o755))
			testkit.WriteText(t, filepath.Join(dir, "7/cgroup"), c.line+"\n")
			if strings.HasPrefix(c.line, nested) {
				testkit.WriteText(t, filepath.Join(dir, "1/cgroup"), nested+"\n")
			}
			if c.theirs != "" {
				testkit.Must(t, os.MkdirAll(filepath.Join(dir, "cg", c.theirs), 0o755))
				testkit.Must(t, os.Chown(filepath.Join(dir, "cg", c.theirs), 65534, 65534))
			}
			if got, _ := PodOf(dir, dir+"/cg", "7"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
