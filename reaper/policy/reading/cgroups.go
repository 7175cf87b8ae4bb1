package reading

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

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
