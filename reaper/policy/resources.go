package policy

// PodResources is what the kubelet's pod-resources socket listed: names, and no UIDs.
type PodResources struct {
	Origin string
	Names  map[PodName]bool
	Silent string // why it did not answer, "" where it did
}

// ListedByName reports whether the kubelet lists the pod's name at its pod-resources socket, and no other pod has the name.
// That of a StatefulSet's pod goes to its successor.
func (l *Look) ListedByName(e *Evidence) Fact {
	r := l.Resources
	if r == nil {
		return Fact{}
	}
	f := Fact{Origin: r.Origin, Detail: r.Silent}
	name := PodName{Namespace: e.Namespace, Name: e.PodName}
	switch {
	case r.Silent != "":
		return f
	case !e.CertainName:
		f.Detail = "it lists names, and this pod's is not known"
		return f
	}
	f.Truth = No
	if !r.Names[name] {
		return f
	}
	for _, uid := range l.UIDs[name] {
		if uid != e.UID {
			f.Detail = "it lists the name, which is also that of the pod " + string(uid)
			return f
		}
	}
	f.Truth, f.Detail = Yes, "the kubelet lists "+name.Namespace+"/"+name.Name
	return f
}
