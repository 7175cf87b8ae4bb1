package reading

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// Life is what runtime and kernel show of the life of one pod while a look is taken. What one
// of them did not tell is false, and so is no sign of it.
type Life struct {
	Ready              bool // the runtime has a sandbox of it that is ready
	Sandbox, Container bool // the runtime has one in whatever state
	Cgroup             bool // the pod has a cgroup
	Process            bool // a process is in it
}

// PassOver returns why the pod plainly lives, "" where its directory has to be walked. A pod that
// plainly lives is kept in any case, and the walk costs more than all the rest of the look. A pod
// that somebody asked for by its UID is walked all the same, and so is a parked one.
func (l Life) PassOver(askedFor, parked bool) string {
	switch {
	case askedFor, parked:
		return ""
	case l.Ready:
		return "not read: the pod lives, its sandbox is ready"
	case l.Process:
		return "not read: the pod lives, a process is in its cgroup"
	}
	return ""
}

// Any reports whether something of the pod may still use its volumes: of VolumeUser it is Lives.
func (l Life) Any() bool { return l.Sandbox || l.Container || l.Process }

// Here reports whether the pod is this node's for certain; a list that has it is then this node's,
// too. A sandbox alone does not show that: a copied disk has old ones. Only this kernel has the
// cgroup.
func (l Life) Here() bool { return l.Sandbox && l.Cgroup }

// Mounted reports whether something is mounted in a pod, by the mountinfo of all namespaces and by
// what was met when the pod was opened. A mount that was met is one, whatever mountinfo said a
// moment before. That none was met shows nothing, since not all of a pod is opened.
func Mounted(known policy.Fact, met ...policy.Fact) policy.Fact {
	for _, f := range met {
		if known.Truth != policy.Yes && f.Truth == policy.Yes {
			return f
		}
	}
	return known
}

// ForeignCgroups gives why a hierarchy of cgroups may not be that of the running kubelet's pods,
// "" where it is believed. found reports whether one of the pods that the runtime runs has its
// cgroup there. If none has, the hierarchy is another node's, or what a kubelet with other settings
// left (with cgroupsPerQOS: false it makes no pod's cgroup at all), or --cgroup-root is wrong: a
// living pod's cgroup would not be found there. One is enough, since the runtime and the cgroups
// are read at the same time, and pods come and go.
//
// Where the runtime runs no pod nothing can be compared: then the usual place is believed, and
// another one is not. This is a doubt that does not keep: it would keep all on a node without pods
// for as long as it has none. What it costs is small. A hierarchy of cgroups does not outlive a boot,
// so at the usual place lies what a kubelet of this boot made; only one that was given another
// cgroupRoot, or cgroupsPerQOS: false, since then has its pods elsewhere.
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
