package probe

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestLeftovers checks that residue of dead pods elsewhere is counted, that what is in use is not, and that an
// unreadable part has no number.
func TestLeftovers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, lives, dead, listed := newNode(t), newUID(), newUID(), newUID()
	count := func(now time.Time, pods ...policy.Evidence) map[string]policy.Leftover {
		look := n.look()
		look.At.Wall, look.Pods = now, append(look.Pods, pods...)
		all := map[string]policy.Leftover{}
		for _, l := range n.probe().Leftovers(t.Context(), &look) {
			all[l.What] = l
		}
		return all
	}
	check := func(all map[string]policy.Leftover, want map[string]int) {
		t.Helper()
		for what, l := range all {
			n := -1
			if l.Count != nil {
				n = *l.Count
			}
			if n != want[what] || (n < 0) != (l.Problem != "") || l.Remover == "" {
				t.Errorf("%+v, want %d", l, want[what])
			}
		}
	}
	check(count(time.Now()), map[string]int{})

	n.Write("run/netns/used", "")
	n.Write("run/netns/leaked", "")
	child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}, "", "mount --bind /proc/self/ns/net '"+n.Path("run/netns/used")+"'")
	n.T.Cleanup(func() { _ = unix.Unmount(n.Path("run/netns/used"), unix.MNT_DETACH) })
	n.Symlink("/run", "var/run")
	const tasks = "run/containerd/io.containerd.runtime.v2.task/k8s.io/"
	for task, pid := range map[string]string{"dead": "4194304", "lives": "1", "odd": "../1", "huge": "1" + string(make([]byte, 100))} {
		n.Write(tasks+task+"/init.pid", pid)
		n.mount("", tasks+task+"/rootfs")
	}
	n.Write(tasks+"unmounted/init.pid", "4194304")
	n.Symlink(n.Path(tasks+"dead"), tasks+"link")
	n.mount("", "var/lib/containerd/tmpmounts/containerd-mount1")
	n.Mkdir("var/lib/containerd/tmpmounts/containerd-mount2", n.PodDir(listed))
	for uid, populated := range map[string]string{string(lives): "1", string(dead): "0", string(listed): "0"} {
		n.Write("cgroup/kubepods.slice/pod"+uid+"/cgroup.events", "populated "+populated+"\n")
	}
	n.Write("kubelet/checkpoints/a.tar", string(make([]byte, 8192)))
	n.Write("kubelet/checkpoints/a.txt", "x")
	n.Symlink("/etc/passwd", "kubelet/checkpoints/b.tar")

	check(count(time.Now()), map[string]int{policy.LeftMounts: 2, policy.LeftCgroups: 1, policy.LeftCheckpoints: 1})
	all := count(time.Now().Add(25 * time.Hour))
	check(all, map[string]int{policy.LeftNamespaces: 1, policy.LeftMounts: 2, policy.LeftCgroups: 1, policy.LeftCheckpoints: 1})
	if all[policy.LeftCheckpoints].Bytes < 8192 {
		t.Errorf("%+v", all[policy.LeftCheckpoints])
	}
	// Doubts: a sandbox without a process, a directory that is not a cgroup, a process without a readable namespace.
	n.Mkdir("cgroup/kubepods.slice/pod" + string(newUID()))
	check(count(time.Now().Add(25*time.Hour), policy.Evidence{UID: dead, Sandboxes: []policy.Sandbox{{Ready: true}}}),
		map[string]int{policy.LeftNamespaces: -1, policy.LeftMounts: 2, policy.LeftCgroups: -1, policy.LeftCheckpoints: 1})
	n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(1, "/", "/")})
	testkit.Must(t, os.Mkdir(n.cfg.ProcDir+"/77", 0o755))
	testkit.Must(t, os.MkdirAll(n.cfg.ProcDir+"/77/ns/net", 0o755)) // EINVAL, like a zombie's
	check(count(time.Now().Add(25*time.Hour)),
		map[string]int{policy.LeftNamespaces: 2, policy.LeftMounts: -1, policy.LeftCgroups: -1, policy.LeftCheckpoints: 1})
}
