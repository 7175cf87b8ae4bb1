package summary

import (
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Counts is how many pods are in which state, from one look. A state that is not known is left out.
type Counts map[State]int

// State is one of the states that Counts has. A pod may be in several.
type State string

// The states.
const (
	// OnDisk have a pod directory, InRuntime a sandbox or container in any state, and
	// KnownToKubelet are those that the kubelet lists as wanted.
	OnDisk         State = "on_disk"
	InRuntime      State = "in_runtime"
	KnownToKubelet State = "known_to_kubelet"
	// OrphanedOnDisk have a directory, and the kubelet reported them as orphans; OrphanedInRuntime run in the runtime, and are
	// not wanted.
	OrphanedOnDisk    State = "orphaned_on_disk"
	OrphanedInRuntime State = "orphaned_in_runtime"
	// Terminating are those that the kubelet terminates now, by its own count.
	Terminating State = "terminating"
	// Static have a directory, and a manifest owns their UID.
	Static State = "static"
)

// States lists all states in the order in which they are shown.
func States() []State {
	return []State{
		OnDisk, InRuntime, KnownToKubelet, OrphanedOnDisk, OrphanedInRuntime, Terminating, Static,
	}
}

// CountPods counts the pods of a look by state.
func CountPods(l *policy.Look, pods []policy.Judged) Counts {
	c := Counts{}
	if l.Partial {
		return c
	}
	var onDisk, all []*policy.Evidence
	for p := range policy.At(pods, policy.InPlace, policy.InRuntime) {
		if p.UID == "" {
			continue
		}
		if all = append(all, &p.Evidence); p.Stage == policy.InPlace {
			onDisk = append(onDisk, &p.Evidence)
		}
	}
	c[OnDisk] = len(onDisk)
	c.count(OrphanedOnDisk, onDisk, orphaned)
	c.count(Static, onDisk, func(e *policy.Evidence) policy.Truth { return e.Facts[policy.FactStaticPod].Truth })
	if l.InRuntime != nil {
		c[InRuntime] = *l.InRuntime
		c.count(OrphanedInRuntime, all, orphanedInRuntime)
	}
	if l.KubeletLists != nil {
		c[KnownToKubelet] = *l.KubeletLists
	}
	if n, ok := l.Node.Gauges.WorkingOn("terminating", ""); ok {
		c[Terminating] = int(n)
	}
	return c
}

// count counts the pods of which is returns Yes. One doubt is a doubt about the number.
func (c Counts) count(s State, pods []*policy.Evidence, is func(*policy.Evidence) policy.Truth) {
	sum := 0
	for _, e := range pods {
		switch is(e) {
		case policy.Yes:
			sum++
		case policy.Unknown:
			return
		case policy.No:
		}
	}
	c[s] = sum
}

// orphaned reports whether a pod directory counts as an orphan's: the kubelet reports it, and runtime and cgroups do not
// have the pod. A report alone makes no orphan: it may be forged. It is for counting; policy.Judge decides.
func orphaned(e *policy.Evidence) policy.Truth {
	f := &e.Facts
	result := f[policy.FactNamed].Truth
	if result != policy.Yes {
		return result
	}
	for _, n := range [...]policy.FactName{policy.FactCgroup, policy.FactSandbox, policy.FactContainer} {
		switch f[n].Truth {
		case policy.Yes:
			return policy.No
		case policy.Unknown:
			result = policy.Unknown
		case policy.No:
		}
	}
	return result
}

// orphanedInRuntime reports whether the runtime runs a pod that is not wanted: a list omits it.
func orphanedInRuntime(e *policy.Evidence) policy.Truth {
	f := &e.Facts
	switch {
	case f[policy.FactSandbox].Truth != policy.Yes && f[policy.FactContainer].Truth != policy.Yes:
		return policy.No
	case f[policy.FactStaticPod].Truth == policy.Yes || f[policy.FactAPILists].Truth == policy.Yes || e.Unwanted == "":
		return policy.No
	}
	return policy.Yes
}
