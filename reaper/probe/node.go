package probe

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// node returns what one look found about the node itself.
func (p *Probe) node(ctx context.Context, l *gathering, found kubelet.Answer) policy.Node {
	n := policy.Node{
		Kubelet: found.Runs, RuntimeLists: l.runtime.Lists, Agrees: found.Agrees, FreeBytes: -1, FreeInodes: -1,
	}
	if running := found.Running; running != nil {
		n.KubeletID, n.LogFormat = running.ID, running.LogFormat
	}
	type answer struct {
		enforce       policy.Fact
		bytes, inodes float64
	}
	on, places := l.Pods, []mountOf(nil)
	if l.Quarantine != nil {
		at, err := bounded.On(ctx, p.guard, "node", l.Pods, askMount)
		at.err = cmp.Or(at.err, err)
		on, places = l.Quarantine, append(places, at)
	}
	a, err := bounded.On(ctx, p.guard, "node", on, func(fd int) (a answer) {
		a.enforce = p.mayEnforce(found.Runs, append(places, askMount(fd))...)
		a.bytes, a.inodes = free(fd)
		return a
	})
	if err != nil {
		n.MayEnforce.Detail = fmt.Sprintf("cannot find out whether these are the node's namespaces: %v", err)
		return n
	}
	n.MayEnforce, n.FreeBytes, n.FreeInodes = a.enforce, a.bytes, a.inodes
	return n
}

// free returns the free shares of the file system's space and inodes, as the kubelet counts them for
// eviction. A negative share is unknown (btrfs has no count of inodes).
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

// mountOf has the ID of the mount that a directory lies on.
type mountOf struct {
	id  uint64
	err error
}

func askMount(fd int) (m mountOf) {
	st, err := beneath.Stat(fd)
	if err != nil || st.Mask&unix.STATX_MNT_ID == 0 { // before Linux 5.8
		st.Mnt_id, err = beneath.MountID(fd)
	}
	return mountOf{st.Mnt_id, err}
}

// mayEnforce reports whether this process sees the node's own processes and mounts.
func (p *Probe) mayEnforce(kubelet policy.Fact, places ...mountOf) policy.Fact {
	n := reading.Namespaces{Self: p.cfg.NodeNamespacesSelf, Kubelet: kubelet.Truth == policy.Yes}
	if !n.Self {
		var link string
		link, n.PIDErr = os.Readlink(p.cfg.ProcDir + "/self/ns/pid")
		n.Initial = link == procfs.InitialPIDNamespace
		n.Own, n.OwnErr = mountsOf(p.cfg.ProcDir, "self")
		n.First, n.FirstErr = mountsOf(p.cfg.ProcDir, "1")
		for _, at := range places {
			n.PlacesErr = cmp.Or(n.PlacesErr, at.err)
			n.Places = append(n.Places, at.id)
		}
	}
	return n.MayEnforce(p.cfg.ProcDir)
}

func mountsOf(procDir, pid string) (mounts []reading.Mount, err error) {
	err = procfs.EachMountOf(procDir, pid, func(l *procfs.MountLine) error {
		id, ok := l.Number()
		if !ok {
			return fmt.Errorf("cannot read the mounts of PID %s: a mount without an ID", pid)
		}
		_, optional, _ := strings.Cut(string(l.Rest), " ")
		optional, _, _ = strings.Cut(optional, "- ")
		mounts = append(mounts, reading.Mount{ID: int(id), Point: procfs.Unescape(l.Target), Peers: strings.Fields(optional)})
		return nil
	})
	return mounts, err
}
