package decide

import (
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// fillNames sets the name of each pod where this look did not find it and an earlier one did. It
// returns the names to remember: those of the pods that have a directory. A name from the pod's log
// directory or the runtime is certain. The log directory goes within a minute after the pod.
func fillNames(l *policy.Look, before map[parsers.PodUID]policy.PodName) map[parsers.PodUID]policy.PodName {
	after := make(map[parsers.PodUID]policy.PodName, len(l.Pods))
	for i := range l.Pods {
		e := &l.Pods[i]
		name, known := before[e.UID]
		switch {
		case e.UID == "":
			continue
		case e.CertainName:
			name = policy.PodName{Namespace: e.Namespace, Name: e.PodName}
		case !known:
			continue
		default:
			e.Namespace, e.PodName, e.CertainName = name.Namespace, name.Name, true
		}
		after[e.UID] = name
	}
	return after
}

// tellResources sets the fact pod_resources. A name that the kubelet lists is this pod's where no
// other pod is known by it. The name of a StatefulSet's pod goes to its successor: as soon as that
// has a sandbox or a log directory, the name is the successor's.
func tellResources(l *policy.Look, e *policy.Evidence) {
	r := l.Resources
	f := policy.Fact{}
	if r != nil {
		f.Origin, f.Detail = r.Origin, r.Silent
	}
	defer func() { e.Facts[policy.FactPodResources] = f }()
	if r == nil || r.Silent != "" {
		return
	}
	name := policy.PodName{Namespace: e.Namespace, Name: e.PodName}
	if !e.CertainName {
		f.Detail = "it lists names, and nobody knows this pod's"
		return
	}
	f.Truth = policy.No
	if !r.Names[name] {
		return
	}
	for _, uid := range l.UIDs[name] {
		if uid != e.UID {
			f.Detail = "it lists the name, which is also that of the pod " + string(uid)
			return
		}
	}
	f.Truth, f.Detail = policy.Yes, "the kubelet lists "+name.Namespace+"/"+name.Name
}
