package policy

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// PodName is a pod's namespace and name.
type PodName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// IsDNSName says whether s can be shown as the name of a namespace or pod: these are DNS
// subdomains, and anything else may hold control characters.
func IsDNSName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	return strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// PodResources is what the kubelet's pod-resources socket listed: names, and no UIDs.
type PodResources struct {
	Origin string
	Names  map[PodName]bool
	Silent string // why it did not answer, "" where it did
}

// Acquaint tells the pod its name, where this look did not and an earlier one did, and returns the
// names to remember: those of the pods that have a directory. A name is certain that came from the
// pod's log directory or the runtime; the log directory goes within a minute after the pod.
func (l *Look) Acquaint(before map[parsers.PodUID]PodName) map[parsers.PodUID]PodName {
	after := make(map[parsers.PodUID]PodName, len(l.Pods))
	for i := range l.Pods {
		e := &l.Pods[i]
		name, known := before[e.UID]
		switch {
		case e.UID == "":
			continue
		case e.CertainName:
			name = PodName{e.Namespace, e.PodName}
		case !known:
			continue
		default:
			e.Namespace, e.PodName, e.CertainName = name.Namespace, name.Name, true
		}
		after[e.UID] = name
	}
	return after
}

// TellResources sets the fact pod_resources. A name that the kubelet lists is this pod's where no
// other pod is known by it: that of a StatefulSet's pod is its successor's as soon as that has a
// sandbox or a log directory.
func (l *Look) TellResources(e *Evidence) {
	r := l.Resources
	f := Fact{}
	if r != nil {
		f.Origin, f.Detail = r.Origin, r.Silent
	}
	defer func() { e.Facts[FactPodResources] = f }()
	if r == nil || r.Silent != "" {
		return
	}
	name := PodName{e.Namespace, e.PodName}
	if !e.CertainName {
		f.Detail = "it lists names, and nobody knows this pod's"
		return
	}
	f.Truth = No
	if !r.Names[name] {
		return
	}
	for _, uid := range l.UIDs[name] {
		if uid != e.UID {
			f.Detail = "it lists the name, which is also that of the pod " + string(uid)
			return
		}
	}
	f.Truth, f.Detail = Yes, "the kubelet lists "+name.Namespace+"/"+name.Name
}
