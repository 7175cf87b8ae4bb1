package reading

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

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
