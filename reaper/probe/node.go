package probe

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// node puts together what one look found out about the node itself.
func (p *Probe) node(ctx context.Context, l *gathering, found kubelet.Answer) policy.Node {
	n := policy.Node{
		Kubelet: found.Runs, RuntimeLists: l.runtime.Lists, Network: l.runtime.Network, Agrees: found.Agrees, FreeBytes: -1, FreeInodes: -1,
	}
	if running := found.Running; running != nil {
		n.KubeletID, n.LogFormat = running.ID, running.LogFormat
	}
	type answer struct {
		enforce       policy.Fact
		bytes, inodes float64
	}
	on := l.Quarantine
	if on == nil {
		on = l.Pods
	}
	a, err := bounded.On(ctx, p.guard, "node", on, func(fd int) (a answer) {
		a.enforce = p.mayEnforce(found.Runs, fd)
		a.bytes, a.inodes = free(fd)
		return a
	})
	if err != nil {
		n.MayEnforce.Detail = fmt.Sprintf("cannot tell whether these are the node's namespaces: %v", err)
		return n
	}
	n.MayEnforce, n.FreeBytes, n.FreeInodes = a.enforce, a.bytes, a.inodes
	return n
}

// free says which shares of the file system's space and inodes are free, as the kubelet
// counts them for eviction; negative where there is no such number (btrfs has no inodes).
func free(fd int) (space, inodes float64) {
	var st unix.Statfs_t
	space, inodes = -1, -1
	if err := unix.Fstatfs(fd, &st); err != nil {
		return space, inodes
	}
	if st.Blocks > 0 {
		space = float64(st.Bavail) / float64(st.Blocks)
	}
	if st.Files > 0 {
		inodes = float64(st.Ffree) / float64(st.Files)
	}
	return space, inodes
}

// mayEnforce says whether this process sees the node's own processes and mounts. From a
// private mount namespace, rmdir of a directory that is a mount point on the host succeeds
// and detaches the host's mount: who cannot see a mount must not remove anything.
func (p *Probe) mayEnforce(kubelet policy.Fact, fd int) policy.Fact {
	if p.cfg.NodeNamespacesSelf {
		return policy.Fact{Truth: policy.Yes, Origin: "--node-namespaces", Detail: "self: these namespaces are the node"}
	}
	f := policy.Fact{Origin: p.cfg.ProcDir}
	link, err := os.Readlink(p.cfg.ProcDir + "/self/ns/pid")
	if err != nil {
		f.Detail = fmt.Sprintf("cannot tell this process's PID namespace: %v", err)
		return f
	}
	if link != procfs.InitialPIDNamespace && kubelet.Truth != policy.Yes {
		f.Truth = policy.No
		f.Detail = "this is neither the host's PID namespace nor one where a kubelet runs; run on the host " +
			"(in a container: host PID namespace), or set --node-namespaces self where these are the node"
		return f
	}
	own, err := readMountFile(p.cfg.ProcDir + "/self/mountinfo")
	if err != nil {
		f.Detail = fmt.Sprintf("cannot read this process's mounts: %v", err)
		return f
	}
	first, err := readMountFile(p.cfg.ProcDir + "/1/mountinfo")
	if err != nil {
		f.Detail = fmt.Sprintf("cannot read the mounts of PID 1: %v", err)
		return f
	}
	f.Truth, f.Detail = policy.Yes, "the mount namespace of PID 1"
	if sameNamespace(own, first) {
		return f
	}
	st, err := beneath.Stat(fd)
	if err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		st.Mnt_id = 0 // before Linux 5.8 the root mount alone is compared
	}
	if follows(own, first, int(min(st.Mnt_id, 1<<31))) {
		f.Detail = "a slave of the mount namespace of PID 1"
		return f
	}
	f.Truth = policy.No
	f.Detail = "this process has a mount namespace of its own, to which the host's mounts do not come; remove what makes it " +
		"from the unit (ProtectSystem=, PrivateTmp=, ReadWritePaths=, MountFlags=private and the like), or in a container " +
		"mount the root directory with mountPropagation: HostToContainer and enter the host's mount namespace"
	return f
}

func readMountFile(path string) ([]*mountinfo.Info, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readMountText(string(text))
}

func readMountText(text string) ([]*mountinfo.Info, error) {
	return mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
}

// sameNamespace: the first lines name the same mount at the same place, so the namespaces
// and the roots are the same.
func sameNamespace(a, b []*mountinfo.Info) bool {
	return len(a) > 0 && len(b) > 0 && a[0].ID == b[0].ID && a[0].Mountpoint == b[0].Mountpoint
}

// follows says whether the mounts that matter, the root and the one that holds the pods,
// get what is mounted in PID 1's namespace: as slaves (master:N) or as peers (shared:N) of
// a mount that is shared:N there.
func follows(own, first []*mountinfo.Info, pods int) bool {
	groups := map[string]bool{}
	for _, m := range first {
		if n, ok := peerGroup(m, "shared:"); ok {
			groups[n] = true
		}
	}
	root := false
	for _, m := range own {
		if m.Mountpoint != "/" && m.ID != pods {
			continue
		}
		root = root || m.Mountpoint == "/"
		master, _ := peerGroup(m, "master:")
		peer, _ := peerGroup(m, "shared:")
		if !groups[master] && !groups[peer] {
			return false
		}
	}
	return root
}

func peerGroup(m *mountinfo.Info, tag string) (string, bool) {
	fields := strings.Fields(m.Optional)
	i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, tag) })
	if i < 0 {
		return "", false
	}
	return strings.CutPrefix(fields[i], tag)
}
