package lists

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// Resources answers whether the kubelet lists the pod's name at its pod-resources socket. A name that
// it lists is this pod's where no other pod is known by it. The name of a StatefulSet's pod goes to its
// successor: as soon as that has a sandbox or a log directory, the name is the successor's.
func Resources(l *policy.Look, e *policy.Evidence) policy.Fact {
	r := l.Resources
	if r == nil {
		return policy.Fact{}
	}
	f := policy.Fact{Origin: r.Origin, Detail: r.Silent}
	name := policy.PodName{Namespace: e.Namespace, Name: e.PodName}
	switch {
	case r.Silent != "":
		return f
	case !e.CertainName:
		f.Detail = "it lists names, and this pod's is not known"
		return f
	}
	f.Truth = policy.No
	if !r.Names[name] {
		return f
	}
	for _, uid := range l.UIDs[name] {
		if uid != e.UID {
			f.Detail = "it lists the name, which is also that of the pod " + string(uid)
			return f
		}
	}
	f.Truth, f.Detail = policy.Yes, "the kubelet lists "+name.Namespace+"/"+name.Name
	return f
}
