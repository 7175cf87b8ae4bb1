package reading

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// Life is what runtime and kernel show of one pod during a look. What was not read is false.
type Life struct {
	Sandbox, Container bool // the runtime has a ready sandbox, and a container that has not exited
	Cgroup             bool // the pod has a cgroup
	Process            bool // a process is in it
}

// PassOver returns why the pod plainly lives, "" if its directory has to be walked. The walk costs more than all the rest of
// the look. A parked pod, and one that was asked for by its UID, is walked in any case.
func (l Life) PassOver(askedFor, parked bool) string {
	switch {
	case askedFor, parked:
		return ""
	case l.Sandbox:
		return "not read: the pod lives, its sandbox is ready"
	case l.Process:
		return "not read: the pod lives, a process is in its cgroup"
	}
	return ""
}

// Any reports whether something of the pod may still use its volumes: of VolumeUser it is Lives.
func (l Life) Any() bool { return l.Sandbox || l.Container || l.Process }

// Here reports whether the pod is certainly this node's. A sandbox alone does not show that: a copied disk has old ones.
func (l Life) Here() bool { return l.Sandbox && l.Cgroup }

// Mounted reports whether something is mounted in a pod, by the mountinfo of all namespaces and by the mounts that were met
// when the pod was opened. That none was met shows nothing, since not all of a pod is opened.
func Mounted(known policy.Fact, met ...policy.Fact) policy.Fact {
	for _, f := range met {
		if known.Truth != policy.Yes && f.Truth == policy.Yes {
			return f
		}
	}
	return known
}

// ForeignCgroups returns why a hierarchy of cgroups may not be that of the running kubelet's pods, "" if it is. found
// reports whether one of the pods that the runtime runs has its cgroup there. If none has, the hierarchy is another node's
// or of other settings (cgroupsPerQOS: false, --cgroup-root), and a living pod's cgroup would not be found.
//
// If the runtime runs no pod, the usual place counts and no other: a doubt would keep everything on a node without pods.
// Cgroups do not outlive a boot, so at the usual place is what a kubelet of this boot made.
func ForeignCgroups(running int, found, usual bool) string {
	switch {
	case found:
		return ""
	case running > 0:
		return "the runtime runs " + policy.Count(running, "pod") + ", and none has a cgroup there: it is not where the kubelet that runs has them; " +
			"see --cgroup-root, and cgroupsPerQOS in the kubelet's configuration"
	case !usual:
		return "the runtime runs no pod that could show whether this is where the kubelet's pods have their cgroups; leave --cgroup-root out"
	}
	return ""
}

// CertainName reports whether the evidence has the pod's own name and namespace, and not the host name of its etc-hosts,
// which its spec may have set to anything. named reports whether the runtime has the name. That of a
// parked pod was in the evidence on which it was parked.
func CertainName(e *policy.Evidence, named bool) bool {
	return e.Namespace != "" && e.PodName != "" && (named || e.Entry != "")
}
