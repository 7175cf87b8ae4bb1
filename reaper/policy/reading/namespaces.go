package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Mount is a line of mountinfo(5), as far as it says where mounts come from and go to.
type Mount struct {
	ID    int
	Point string
	Peers []string // the optional fields: shared:N, master:N
}

// Namespaces are what this process sees the node through. The zero value may not enforce.
type Namespaces struct {
	Self    bool  // the operator says that these are the node
	Initial bool  // the PID namespace is the host's
	PIDErr  error // why that is not known
	Kubelet bool  // a kubelet is seen to run
	// Own are the mounts of this process, and First those of PID 1.
	Own, First       []Mount
	OwnErr, FirstErr error
	Pods             int // the ID of the mount on which the pods lie; 0 where it is not known, before Linux 5.8
}

// MayEnforce says whether this process sees the node's own processes and mounts. From a
// private mount namespace, rmdir of a directory that is a mount point on the host succeeds
// and detaches the host's mount: who cannot see a mount must not remove anything.
func (n *Namespaces) MayEnforce(origin string) policy.Fact {
	f := policy.Fact{Origin: origin}
	switch {
	case n.Self:
		f.Truth, f.Origin, f.Detail = policy.Yes, "--node-namespaces", "self: these namespaces are the node"
	case n.PIDErr != nil:
		f.Detail = fmt.Sprintf("cannot tell this process's PID namespace: %v", n.PIDErr)
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
	case n.follow():
		f.Truth, f.Detail = policy.Yes, "a slave of the mount namespace of PID 1"
	default:
		f.Truth = policy.No
		f.Detail = "this process has a mount namespace of its own, to which the host's mounts do not come; remove what makes it " +
			"from the unit (ProtectSystem=, PrivateTmp=, ReadWritePaths=, MountFlags=private and the like), or in a container " +
			"mount the root directory with mountPropagation: HostToContainer and enter the host's mount namespace"
	}
	return f
}

// same reports whether the first lines name the same mount at the same place: then the namespaces
// and the roots are the same.
func (n *Namespaces) same() bool {
	return len(n.Own) > 0 && len(n.First) > 0 && n.Own[0].ID == n.First[0].ID && n.Own[0].Point == n.First[0].Point
}

// follow says whether the mounts that matter, the root and the one that holds the pods,
// get what is mounted in PID 1's namespace: as slaves (master:N) or as peers (shared:N) of
// a mount that is shared:N there.
func (n *Namespaces) follow() bool {
	groups := map[string]bool{}
	for _, m := range n.First {
		if g, ok := m.peer("shared:"); ok {
			groups[g] = true
		}
	}
	root := false
	for _, m := range n.Own {
		if m.Point != "/" && m.ID != n.Pods {
			continue
		}
		root = root || m.Point == "/"
		master, _ := m.peer("master:")
		peer, _ := m.peer("shared:")
		if !groups[master] && !groups[peer] {
			return false
		}
	}
	return root
}

func (m Mount) peer(tag string) (string, bool) {
	i := slices.IndexFunc(m.Peers, func(f string) bool { return strings.HasPrefix(f, tag) })
	if i < 0 {
		return "", false
	}
	return strings.CutPrefix(m.Peers[i], tag)
}
