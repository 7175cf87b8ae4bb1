package decide

import (
	"maps"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// fillNames sets the name of each pod where this look did not find it and an earlier one did. It
// returns the names to remember: those of the pods that have a directory, here or in quarantine. A name from the
// pod's log directory or the runtime is certain. The log directory goes within a minute after the pod.
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
	for _, e := range pointers(l.Parked, l.Resting) {
		if name, known := before[e.UID]; known {
			after[e.UID] = name
		}
	}
	return after
}

// rememberStatic sets Evidence.Static where this look or an earlier one saw that the pod is a static one, by its sandbox
// or its manifest, and remembers that of the pods that have a directory. The kubelet removes the sandboxes within
// minutes after the pod, and a pod that waits for a volume has none.
func (d *Ruling) rememberStatic(c Case) {
	m := &d.Memory
	m.Static = map[parsers.PodUID]bool{}
	if c.Only { // what this look has not seen stays
		maps.Copy(m.Static, c.Memory.Static)
	}
	for _, e := range pointers(d.Look.Pods, d.Look.RuntimeOnly) {
		e.Static = e.Static || c.Memory.Static[e.UID] || e.Facts[policy.FactStaticPod].Truth == policy.Yes
		if e.Static {
			m.Static[e.UID] = true
		}
	}
	for _, e := range pointers(d.Look.Parked, d.Look.Resting) {
		if was := c.Entries[e.Entry]; was != nil {
			e.Static = e.Static || was.Static || c.Memory.Static[e.UID] || e.Facts[policy.FactStaticPod].Truth == policy.Yes
		}
		if e.Static { // it may be put back
			m.Static[e.UID] = true
		}
	}
}
