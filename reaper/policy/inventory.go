package policy

import (
	"slices"
)

// Inventory is how many pods are in which state, from one look. A state that is not known is
// not in it: it is never a false 0.
type Inventory map[InventoryState]int

// InventoryState is one of the states that Inventory counts. A pod may be in several.
type InventoryState string

// The states.
const (
	// PodsOnDisk have a pod directory, PodsInRuntime a sandbox or container in any state, and
	// PodsKnownToKubelet are those that the kubelet lists as wanted.
	PodsOnDisk         InventoryState = "on_disk"
	PodsInRuntime      InventoryState = "in_runtime"
	PodsKnownToKubelet InventoryState = "known_to_kubelet"
	// PodsOrphanedOnDisk have a directory, and the kubelet named them as orphans or nothing
	// on the node knows them; PodsOrphanedInRuntime have something in the runtime, and are
	// wanted by nobody.
	PodsOrphanedOnDisk    InventoryState = "orphaned_on_disk"
	PodsOrphanedInRuntime InventoryState = "orphaned_in_runtime"
	// PodsTerminating are those that the kubelet terminates now, by its own count.
	PodsTerminating InventoryState = "terminating"
	// PodsStatic have a directory, and a manifest owns their UID.
	PodsStatic InventoryState = "static"
)

// InventoryStates lists all states in the order in which people see them.
func InventoryStates() []InventoryState {
	return []InventoryState{
		PodsOnDisk, PodsInRuntime, PodsKnownToKubelet, PodsOrphanedOnDisk, PodsOrphanedInRuntime, PodsTerminating, PodsStatic,
	}
}

// Inventory counts the pods by state. The facts that the kubelet's log gives must have been
// told to the look.
func (l *Look) Inventory() Inventory {
	c := Inventory{}
	if l.Partial {
		return c
	}
	on := 0
	for i := range l.Pods {
		if l.Pods[i].UID != "" {
			on++
		}
	}
	c[PodsOnDisk] = on
	c.count(PodsOrphanedOnDisk, l.Pods, Orphaned)
	c.count(PodsStatic, l.Pods, func(e *Evidence) Truth { return e.Facts[FactStaticPod].Truth })
	if l.InRuntime != nil {
		c[PodsInRuntime] = *l.InRuntime
		all := append(append([]Evidence(nil), l.Pods...), l.RuntimeOnly...)
		c.count(PodsOrphanedInRuntime, all, orphanedInRuntime)
	}
	if l.KubeletLists != nil {
		c[PodsKnownToKubelet] = *l.KubeletLists
	}
	if n, ok := l.Node.Gauges.WorkingOn("terminating", ""); ok {
		c[PodsTerminating] = int(n)
	}
	return c
}

// count counts the pods of which is says Yes. One doubt is a doubt about the number.
func (c Inventory) count(s InventoryState, pods []Evidence, is func(*Evidence) Truth) {
	sum := 0
	for i := range pods {
		if pods[i].UID == "" {
			continue
		}
		switch is(&pods[i]) {
		case Yes:
			sum++
		case Unknown:
			return
		case No:
		}
	}
	c[s] = sum
}

// Orphaned says whether a pod directory counts as an orphan's: nothing on the node shows that
// the pod lives, no cgroup, and no sandbox or container that the runtime knows; and the
// kubelet has named it, or it is in no list and no manifest owns it. To be named alone makes
// no orphan: a pod can have a line written that names any other. It is for counting; Judge
// decides.
func Orphaned(e *Evidence) Truth {
	f := &e.Facts
	known := []FactName{FactCgroup, FactSandbox, FactContainer}
	named := f[FactNamed].Truth == Yes
	if !named {
		known = append(known, FactStaticPod)
	}
	result := Yes
	for _, n := range known {
		switch f[n].Truth {
		case Yes:
			return No
		case Unknown:
			result = Unknown
		case No:
		}
	}
	if named {
		return result
	}
	if f[FactKubeletLists].Truth == Yes || f[FactAPILists].Truth == Yes {
		return No
	}
	return result
}

// orphanedInRuntime says whether the runtime has something of a pod that is not wanted. Of a
// pod that has a cgroup or a sandbox that is ready nobody doubts that it is wanted, unless
// a list says so; to be named alone, which a pod can bring about, counts where none is ready.
func orphanedInRuntime(e *Evidence) Truth {
	f := &e.Facts
	switch {
	case f[FactSandbox].Truth == No && f[FactContainer].Truth == No:
		return No
	case f[FactStaticPod].Truth == Yes || f[FactAPILists].Truth == Yes:
		return No
	case e.Unwanted != "":
		return Yes
	case slices.ContainsFunc(e.Sandboxes, func(s Sandbox) bool { return s.Ready }):
		return No
	case f[FactSandbox].Truth != Yes && f[FactContainer].Truth != Yes:
		return Unknown
	case f[FactNamed].Truth == Yes:
		return Yes
	case f[FactKubeletLists].Truth == Yes || f[FactCgroup].Truth == Yes:
		return No
	}
	return Unknown
}

// KubeletGauges is what the kubelet that runs counts itself, from its /metrics. A nil value
// is not known: most came with 1.27, and many a node lets nobody ask. They are shown to
// people and in metrics; nothing is kept or let go on their account.
type KubeletGauges struct {
	Origin string `json:"origin,omitempty"` // the address that was asked
	Detail string `json:"detail,omitempty"` // why nothing is known, "" where something is
	// CleanedVolumes and Uncleaned are of the kubelet's last sweep: how many pod directories
	// it found orphaned, and how many of them it could not clean up. The second counts those
	// too that its log does not name, because something is mounted in them.
	CleanedVolumes *int64 `json:"orphan_pod_cleaned_volumes,omitempty"`
	Uncleaned      *int64 `json:"orphan_pod_cleaned_volumes_errors,omitempty"`
	// OrphanedRuntimePods and RestartedPods count since the kubelet's start: pods that the
	// runtime had and nobody desired, and pods that came back with the same UID.
	OrphanedRuntimePods *int64 `json:"orphaned_runtime_pods,omitempty"`
	RestartedPods       *int64 `json:"restarted_pods,omitempty"`
	// Working is how many pods the kubelet works on; nil is not known.
	Working []WorkingPods `json:"working_pods,omitempty"`
}

// WorkingPods is one series of kubelet_working_pods.
type WorkingPods struct {
	Lifecycle string `json:"lifecycle"` // sync, terminating or terminated
	Config    string `json:"config"`    // desired, orphan or runtime_only
	Static    string `json:"static"`    // "true", "" or unknown
	Count     int64  `json:"count"`
}

// Ending is how many pods the kubelet terminates, or has terminated and not yet forgotten,
// that nobody wants; false where that is not known.
func (g KubeletGauges) Ending() (int64, bool) {
	var sum int64
	for _, w := range g.Working {
		if (w.Lifecycle == "terminating" || w.Lifecycle == "terminated") && (w.Config == "orphan" || w.Config == "runtime_only") {
			sum += w.Count
		}
	}
	return sum, g.Working != nil
}

// WorkingOn sums kubelet_working_pods over the label static; an empty lifecycle or config
// stands for all. It returns false where nothing is known.
func (g KubeletGauges) WorkingOn(lifecycle, config string) (int64, bool) {
	var sum int64
	for _, w := range g.Working {
		if (lifecycle == "" || w.Lifecycle == lifecycle) && (config == "" || w.Config == config) {
			sum += w.Count
		}
	}
	return sum, g.Working != nil
}
