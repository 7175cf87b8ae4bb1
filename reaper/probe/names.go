package probe

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// certainName says whether the evidence has the pod's own name and namespace, and not the
// host name of its etc-hosts, which its spec may have set to anything. That of a parked pod
// stood in the evidence on which it was parked.
func (l *gathering) certainName(e *policy.Evidence) bool {
	_, logged := l.logs.Names[e.UID]
	_, listed := l.runtime.Names[e.UID]
	return e.Namespace != "" && e.PodName != "" && (logged || listed || e.Entry != "")
}

// uids are the pods of each name, as runtime and log directories tell them.
func (l *gathering) uids() map[policy.PodName][]parsers.PodUID {
	uids := map[policy.PodName][]parsers.PodUID{}
	add := func(uid parsers.PodUID, name policy.PodName) {
		if !slices.Contains(uids[name], uid) {
			uids[name] = append(uids[name], uid)
		}
	}
	for uid, name := range l.runtime.Names {
		add(uid, name)
	}
	for uid, name := range l.logs.Names {
		add(uid, name)
	}
	return uids
}

// logless is a pod that runs and has a directory here, and no log directory; "" where there is none.
func (l *gathering) logless() parsers.PodUID {
	var found []parsers.PodUID
	for uid := range l.runtime.Ready {
		if _, ok := l.Kind(string(uid)); ok && !l.logs.Pods[uid] {
			found = append(found, uid)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}
