package reading

import (
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// PodLogs are the directories of the pods' logs, NAMESPACE_NAME_UID since 1.14. The kubelet makes one before the pod's
// first sandbox. Every minute, once its sources are ready, it removes those of the pods that it does not know or has
// finished with (kuberuntime_gc.go, evictPodLogsDirectories).
type PodLogs struct {
	Dir   string
	Pods  map[parsers.PodUID]bool
	Names map[parsers.PodUID]policy.PodName
	Err   error // why not all of them are known
}

// Fact reports whether the kubelet keeps the pod's log directory. That it is missing counts only if no running pod of the
// kubelet's lacks one (logless): a program may have cleaned /var/log.
func (l *PodLogs) Fact(e *policy.Evidence, logless parsers.PodUID) policy.Fact {
	f := policy.Fact{Origin: l.Dir}
	switch {
	case l.Pods[e.UID]:
		f.Truth, f.Detail = policy.Yes, "the kubelet keeps the pod's log directory"
	case l.Err != nil:
		f.Detail = l.Err.Error()
	case neverRan(e):
		f.Truth = policy.No // such a pod never had one
	case logless != "":
		f.Detail = "the pod " + string(logless) + " runs and has no log directory there: they are removed, or lie elsewhere"
	default:
		f.Truth = policy.No
	}
	return f
}

// neverRan reports whether the pod's directory shows that it had no container: the kubelet makes
// containers/NAME and etc-hosts for the first one, after sandbox and log directory.
func neverRan(e *policy.Evidence) bool {
	if e.Facts[policy.FactContent].Truth != policy.Yes {
		return false
	}
	return !slices.ContainsFunc(e.Residue, func(r policy.Residue) bool {
		first, _, _ := strings.Cut(r.Path, "/")
		return first == "containers" || first == "etc-hosts"
	})
}

// CertainName reports whether the evidence has the pod's own name and namespace, and not the host name of its etc-hosts,
// which its spec may have set to anything. named reports whether the runtime or the log directory has the name. That of a
// parked pod was in the evidence on which it was parked.
func CertainName(e *policy.Evidence, named bool) bool {
	return e.Namespace != "" && e.PodName != "" && (named || e.Entry != "")
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
