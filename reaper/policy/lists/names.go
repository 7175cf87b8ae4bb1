package lists

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// CertainName reports whether the evidence has the pod's own name and namespace, and not the
// host name of its etc-hosts, which its spec may have set to anything. told is true where the
// runtime or the log directory says the name. That of a parked pod stood in the evidence on
// which it was parked.
func CertainName(e *policy.Evidence, told bool) bool {
	return e.Namespace != "" && e.PodName != "" && (told || e.Entry != "")
}

// Logless is one of the pods that run and have a directory here, and has no log directory; "" where
// there is none.
func (l *PodLogs) Logless(running []parsers.PodUID) parsers.PodUID {
	without := slices.DeleteFunc(slices.Clone(running), func(uid parsers.PodUID) bool { return l.Pods[uid] })
	if len(without) == 0 {
		return ""
	}
	return slices.Min(without)
}
