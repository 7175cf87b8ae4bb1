package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Manifest identifies a static pod's manifest.
type Manifest struct {
	File            string
	Namespace, Name string
	UID             string // metadata.uid, which the kubelet takes as it is; usually none
}

// StaticSandbox is a sandbox in which the runtime runs a static pod.
type StaticSandbox struct {
	UIDs    []string // at least one
	Created int64    // nanoseconds since the epoch
}

// StaticPods are the manifests of the kubelet that runs now, as one look read them.
//
// A static pod's UID is a hash of the kubelet's own Go type of a pod, which gains fields with releases (kubernetes#67537).
// No other program can compute it, so names show whether a manifest owns a UID.
type StaticPods struct {
	Origin    string
	Node      string // what the kubelet appends to the manifests' names
	Manifests []Manifest
	Unsure    string // why there may be more static pods than manifests
	Err       error  // why a manifest could not be read
	// Broken has the text of each file that is no manifest, if Err is about no other: it may become one.
	Broken []string
}

// Doubt returns why there may be more manifests than were read, "" where there are not.
func (s *StaticPods) Doubt() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	return s.Unsure
}

// mayState reports whether a manifest that could not be read may state the UID. What lies beside the manifests and does not
// contain the UID, such as a README, keeps no pod of the API server's.
func (s *StaticPods) mayState(uid parsers.PodUID) bool {
	contains := func(text string) bool { return strings.Contains(text, string(uid)) }
	return s.Err != nil && (len(s.Broken) == 0 || slices.ContainsFunc(s.Broken, contains))
}

// Fact answers whether a manifest owns the pod's UID, where running has the sandboxes of
// static pods by name.
func (s *StaticPods) Fact(e *Evidence, running map[PodName][]StaticSandbox) Fact {
	f := Fact{Origin: s.Origin}
	var maybe string
	for _, m := range s.Manifests {
		switch truth, words := m.owns(e, s.Node, running); truth {
		case Yes:
			f.Truth, f.Detail = Yes, words
			return f
		case Unknown:
			maybe = words
		case No:
			if words != "" {
				f.Detail = words
			}
		}
	}
	switch doubt := s.Doubt(); {
	case len(e.UID) != StaticUIDLen && !s.mayState(e.UID) && (s.Err == nil || !e.Static):
		f.Truth = No // the kubelet gives no such UID, and no manifest states it
	case doubt != "":
		f.Detail = doubt
	case maybe != "":
		f.Detail, f.Own = maybe, true
	default:
		f.Truth = No
	}
	return f
}

// owns reports whether the manifest owns the UID, with a detail for display. It does not if the runtime runs it under
// another UID, in a ready sandbox younger than the directory: an older kubelet or manifest gave it the UID.
func (m Manifest) owns(e *Evidence, node string, running map[PodName][]StaticSandbox) (Truth, string) {
	switch {
	case m.UID != "" && m.UID == string(e.UID):
		return Yes, m.File + " states this UID"
	case m.UID != "", len(e.UID) != StaticUIDLen:
		return No, ""
	}
	fits := m.fits(e)
	if e.CertainName && !fits {
		return No, ""
	}
	names := []PodName{{Namespace: m.Namespace, Name: m.Name + "-" + node}}
	if e.CertainName {
		names = append(names, PodName{Namespace: e.Namespace, Name: e.PodName})
	}
	for _, n := range names {
		if uid := since(running[n], e); uid != "" {
			return No, fmt.Sprintf("%s is the manifest of %s, which the runtime runs under another UID: %s", m.File, n.Name, uid)
		}
	}
	if fits {
		return Yes, m.File + " is this pod's manifest"
	}
	return Unknown, "the pod's name is not known, and " + m.File + " may be its manifest"
}

// fits reports whether the pod may have its name from the manifest: the kubelet appends the
// node's name. A name without a namespace, from etc-hosts, counts as well.
func (m Manifest) fits(e *Evidence) bool {
	return (e.Namespace == m.Namespace || e.Namespace == "") &&
		(e.PodName == m.Name || strings.HasPrefix(e.PodName, m.Name+"-"))
}

// since returns the UID of a sandbox that is another pod's and was made after the
// directory, "" where there is none or the directory's birth is not known.
func since(sandboxes []StaticSandbox, e *Evidence) string {
	for _, s := range sandboxes {
		if e.ID.Btime > 0 && s.Created > e.ID.Btime && !slices.Contains(s.UIDs, string(e.UID)) {
			return s.UIDs[0]
		}
	}
	return ""
}

// AnyStatic reports whether one of the UIDs is one that the kubelet itself gives.
func AnyStatic(uids map[parsers.PodUID]bool) bool {
	for uid := range uids {
		if len(uid) == StaticUIDLen {
			return true
		}
	}
	return false
}
