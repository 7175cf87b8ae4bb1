package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Mount is a line of mountinfo(5), as far as it shows where mounts propagate.
type Mount struct {
	ID    int
	Point string
	Peers []string // the optional fields: shared:N, master:N
}

// Namespaces are what this process sees the node through. The zero value may not enforce.
type Namespaces struct {
	Self    bool  // a setting: these are the node
	Initial bool  // the PID namespace is the host's
	PIDErr  error // why that is not known
	Kubelet bool  // a kubelet is seen to run
	// Own are the mounts of this process, and First those of PID 1.
	Own, First       []Mount
	OwnErr, FirstErr error
	// Places are the IDs of mounts in Own: of a look those on which the pods and the quarantine lie,
	// not CNI's directories; of each part of a sweep that of CNI's directory which it reads.
	Places    []uint64
	PlacesErr error
}

// MayEnforce reports whether this process sees the node's own processes and mounts. From a private mount namespace, rmdir
// of a directory that is a mount point on the host succeeds, and detaches the host's mount.
func (n *Namespaces) MayEnforce(origin string) policy.Fact {
	f := policy.Fact{Origin: origin}
	switch {
	case n.Self:
		f.Truth, f.Origin, f.Detail = policy.Yes, "--node-namespaces", "self: these namespaces are the node"
	case n.PIDErr != nil:
		f.Detail = fmt.Sprintf("cannot find out this process's PID namespace: %v", n.PIDErr)
	case !n.Initial && !n.Kubelet:
		f.Truth = policy.No
		f.Detail = "this is neither the host's PID namespace nor one where a kubelet runs; run on the host " +
			"(in a container: host PID namespace), or set --node-namespaces self where these are the node"
	case n.OwnErr != nil:
		f.Detail = fmt.Sprintf("cannot read this process's mounts: %v", n.OwnErr)
	case n.FirstErr != nil:
		f.Detail = fmt.Sprintf("cannot read the mounts of PID 1: %v", n.FirstErr)
	case n.same():
		f.Truth, f.Detail = policy.Yes, "the mount namespace of PID 1"
	case n.PlacesErr != nil:
		f.Detail = fmt.Sprintf("cannot find out on which mounts the directories lie that are changed: %v", n.PlacesErr)
	default:
		f.Truth, f.Detail = n.follow()
	}
	return f
}

// same reports whether the first lines have the same mount, so that namespaces and roots are the same.
func (n *Namespaces) same() bool {
	return len(n.Own) > 0 && len(n.First) > 0 && n.Own[0].ID == n.First[0].ID && n.Own[0].Point == n.First[0].Point
}

// follow reports whether each mount of Places receives what is mounted in PID 1's namespace: as a slave (master:N) or as a
// peer (shared:N). The root need not: nothing is changed on it.
func (n *Namespaces) follow() (policy.Truth, string) {
	groups := map[string]bool{}
	for _, m := range n.First {
		if g, ok := m.peer("shared:"); ok {
			groups[g] = true
		}
	}
	if len(n.Places) == 0 {
		return policy.Unknown, "no directory that is changed was found"
	}
	for _, id := range n.Places {
		i := slices.IndexFunc(n.Own, func(m Mount) bool { return uint64(m.ID) == id })
		if i < 0 {
			return policy.Unknown, fmt.Sprintf("mount %d, on which lies what is changed, is not among this process's mounts", id)
		}
		m := n.Own[i]
		master, _ := m.peer("master:")
		peer, _ := m.peer("shared:")
		if !groups[master] && !groups[peer] {
			return policy.No, fmt.Sprintf("the host's later mounts do not come to %s in this mount namespace: in a container mount it with "+
				"mountPropagation: HostToContainer; from a unit remove what makes the namespace "+
				"(ProtectSystem=, PrivateTmp=, ReadWritePaths=, MountFlags=private and the like)", m.Point)
		}
	}
	return policy.Yes, "the host's mounts come to a mount namespace of its own, a slave of that of PID 1"
}

func (m Mount) peer(tag string) (string, bool) {
	i := slices.IndexFunc(m.Peers, func(f string) bool { return strings.HasPrefix(f, tag) })
	if i < 0 {
		return "", false
	}
	return strings.CutPrefix(m.Peers[i], tag)
}
