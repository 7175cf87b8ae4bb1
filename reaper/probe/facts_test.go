package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// asNobody reports whether this is the copy of the test binary that runs as a user who owns nothing. Otherwise it
// runs that copy, and the test must return.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) == t.Name() {
		return true
	}
	needRoot(t)
	testkit.NeedProcesses(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	exe := openTest(t, os.Args[0]) // by handle: other users may not be able to follow its path
	cmd.Path = "/proc/self/fd/3"
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), namespaceEnv+"="+t.Name(), "TMPDIR=/tmp")
	id := uint32(lonely + os.Getpid())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)) {
		skipWithout(t, "other users than this user namespace's root", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	return false
}

// TestUnreadable looks as a user who may not read most of the node.
func TestUnreadable(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid, closed := newUID(), newUID()
			n.Mkdir(n.PodDir(uid), n.PodDir(closed), "cgroup/closed")
			for _, rel := range []string{n.PodDir(closed), "cgroup/closed"} {
				must(t, os.Chmod(n.Path(rel), 0))
				t.Cleanup(func() { must(t, os.Chmod(n.Path(rel), 0o700)) })
			}
			look := n.look()
			want := but(facts{
				policy.FactCgroup: policy.Unknown, policy.FactInUse: policy.Unknown,
			})
			check(t, find(t, look, uid), want)
			wantDetail(t, find(t, look, uid).Facts[policy.FactInUse], "no other process")
			check(t, find(t, look, closed), facts{
				policy.FactDirectory: policy.Unknown, policy.FactOwnMount: policy.Unknown,
				policy.FactContent: policy.Unknown, policy.FactStaged: policy.Unknown,
			})
			// A process of the same user is readable, and any other process may have the pod's files open.
			child(t, nil, "/", "")
			f := n.one(uid).Facts[policy.FactInUse]
			if f.Truth != policy.Unknown {
				t.Errorf("in use is %+v, want unknown", f)
			}
			wantDetail(t, f, "CAP_SYS_PTRACE")
			t.Run("pods directory", func(t *testing.T) {
				must(t, os.Chmod(n.Path("kubelet/pods"), 0))
				defer func() { must(t, os.Chmod(n.Path("kubelet/pods"), 0o700)) }()
				if _, err := n.probe().Look(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "permission denied") {
					t.Errorf("the look gives %v", err)
				}
			})
		})
	}
}

func TestPodsDirectory(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid := newUID()
			n.Mkdir(n.PodDir(uid))
			n.Symlink(n.Path("kubelet"), "link")
			n.cfg.RootDir = n.Path("link")
			check(t, n.one(uid), dead())
			for name, set := range map[string]func(){
				"missing root": func() { n.cfg.RootDir = n.Path("nowhere") },
				"missing":      func() { n.Mkdir("empty"); n.cfg.RootDir = n.Path("empty") },
				"a symlink":    func() { n.Symlink(n.Path("kubelet/pods"), "a/pods"); n.cfg.RootDir = n.Path("a") },
				"a file":       func() { n.Write("b/pods", ""); n.cfg.RootDir = n.Path("b") },
			} {
				set()
				look, err := n.probe().Look(t.Context(), nil, nil)
				if err == nil || !strings.Contains(err.Error(), "cannot list the pods directory "+n.cfg.RootDir+"/pods") || len(look.Pods) > 0 {
					t.Errorf("%s: the look gives %v and %d pods", name, err, len(look.Pods))
				}
				if name == "a symlink" && !strings.Contains(fmt.Sprint(err), "it is a symlink") {
					t.Errorf("the error lacks the cause: %v", err)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	n := newNode(t)
	hosts, network, none := newUID(), newUID(), newUID()
	n.Mkdir(n.PodDir(none))
	n.Write(n.PodDir(hosts)+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"+
		"fe00::2\tip6-allrouters\n10.0.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\tother\n")
	n.Write(n.PodDir(network)+"/etc-hosts", "# Kubernetes-managed hosts file (host network).\n10.0.0.7\tnode-1\n")
	look := n.look()
	for uid, want := range map[parsers.PodUID]policy.PodName{
		hosts: {Namespace: "shop", Name: "web-0"}, network: {}, none: {},
	} {
		if e := find(t, look, uid); e.Namespace != want.Namespace || e.PodName != want.Name {
			t.Errorf("the name is %s/%s, want %+v", e.Namespace, e.PodName, want)
		}
	}
}

func TestParked(t *testing.T) {
	n := newNode(t)
	quiet, remade, asFile, missing := newUID(), newUID(), newUID(), newUID()
	states := []policy.EntryState{}
	for _, uid := range []parsers.PodUID{quiet, remade, asFile, missing} {
		s := policy.EntryState{Entry: string(uid) + ".1", UID: uid, Namespace: "shop", PodName: "web"}
		if uid != missing {
			n.Write("kubelet/orphan-reaper/"+s.Entry+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
		}
		states = append(states, s)
	}
	states = append(states, policy.EntryState{Entry: "../pods/" + string(quiet), UID: newUID()})
	n.Mkdir(n.PodDir(remade), "cgroup/kubepods.slice/pod"+string(remade))
	n.Write(n.PodDir(asFile), "")
	look := n.look(states...)
	alive := func(changed facts) facts {
		f := but(changed)
		if _, ok := changed[policy.FactRemade]; !ok {
			f[policy.FactRemade] = policy.No
		}
		return f
	}
	check(t, look.Parked[0], alive(nil))
	check(t, look.Parked[1], alive(facts{policy.FactRemade: policy.Yes, policy.FactCgroup: policy.Yes}))
	check(t, look.Parked[2], alive(facts{policy.FactRemade: policy.Yes}))
	wantDetail(t, look.Parked[2].Facts[policy.FactRemade], "a regular file")
	check(t, look.Parked[3], alive(facts{policy.FactDirectory: policy.No, policy.FactContent: policy.Unknown}))
	check(t, look.Parked[4], facts{policy.FactDirectory: policy.Unknown, policy.FactContent: policy.Unknown})
	if e := look.Parked[0]; e.Entry != states[0].Entry || e.PodName != "web" || e.ID.Ino == 0 ||
		e.VolData["volumes/kubernetes.io~csi/pv-1/vol_data.json"] != goodVolData || len(e.Residue) != 2 {
		t.Errorf("the parked pod was not found: %+v", e)
	}
	if len(look.Pods) != 2 {
		t.Errorf("%d entries in the pods directory, want 2", len(look.Pods))
	}
	t.Run("no quarantine", func(t *testing.T) {
		n := newNode(t)
		look := n.look(states[0])
		// The entry may not be gone: the disk may not be mounted.
		check(t, look.Parked[0], alive(facts{
			policy.FactDirectory: policy.Unknown, policy.FactOwnMount: policy.Unknown,
			policy.FactStaged: policy.Unknown, policy.FactContent: policy.Unknown,
		}))
	})
}

// TestLivingIsNotWalked checks that a pod with a running process is passed over, and that a dead or doubtful pod is
// not.
func TestLivingIsNotWalked(t *testing.T) {
	n := newNode(t)
	v2, v1, idle, plain, dead := newUID(), newUID(), newUID(), newUID(), newUID()
	for _, uid := range []parsers.PodUID{v2, v1, idle, plain, dead} {
		n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/tmp/file", "x")
	}
	const cgroup = "cgroup/kubepods.slice/pod"
	n.Write(cgroup+string(v2)+"/cgroup.events", "populated 1\nfrozen 0\n")
	n.Write(cgroup+string(v1)+"/container/cgroup.procs", "12\n")
	n.Write(cgroup+string(v1)+"/cgroup.procs", "")
	n.Write(cgroup+string(idle)+"/cgroup.events", "populated 0\nfrozen 0\n")
	n.Mkdir(cgroup + string(plain)) // a plain directory is not a cgroup and proves nothing
	look := n.look()
	for _, uid := range []parsers.PodUID{v2, v1} {
		e := find(t, look, uid)
		check(t, e, facts{
			policy.FactCgroup: policy.Yes, policy.FactContent: policy.Unknown, policy.FactStaged: policy.Unknown,
			policy.FactMounted: policy.No, policy.FactDirectory: policy.Yes,
		})
		wantDetail(t, e.Facts[policy.FactContent], "not read: the pod lives")
		if !e.Unread || len(e.Residue) > 0 || e.ID == (policy.DirID{}) || e.Changed.IsZero() {
			t.Errorf("living pod: %+v", e)
		}
	}
	for _, uid := range []parsers.PodUID{idle, plain, dead} {
		e := find(t, look, uid)
		check(t, e, facts{policy.FactContent: policy.Yes, policy.FactStaged: policy.No})
		if e.Unread || len(e.Residue) != 2 || e.CgroupIdle != (uid == idle) {
			t.Errorf("pod without a process: %+v", e)
		}
	}
	for _, err := range look.Errors {
		t.Errorf("passing over is reported as an error: %s", err)
	}
	// A look of one pod reads all of it.
	one, err := n.probe().Look(t.Context(), nil, []parsers.PodUID{v2})
	must(t, err)
	if e := find(t, one, v2); e.Unread || len(e.Residue) != 2 {
		t.Errorf("selected pod: %+v", e)
	}
}
