package probe

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// certainName reports whether the evidence has the pod's own name.
func (l *gathering) certainName(e *policy.Evidence) bool {
	_, logged := l.logs.Names[e.UID]
	_, listed := l.runtime.Name(e.UID)
	return reading.CertainName(e, logged || listed)
}

// uids are the pods of each name, by runtime and log directories.
func (l *gathering) uids() map[policy.PodName][]parsers.PodUID {
	uids := map[policy.PodName][]parsers.PodUID{}
	add := func(uid parsers.PodUID, name policy.PodName) {
		if !slices.Contains(uids[name], uid) {
			uids[name] = append(uids[name], uid)
		}
	}
	for uid := range l.runtime.Pods {
		if name, ok := l.runtime.Name(uid); ok {
			add(uid, name)
		}
	}
	for uid, name := range l.logs.Names {
		add(uid, name)
	}
	return uids
}

// running are the pods that run and have a directory here.
func (l *gathering) running() []parsers.PodUID {
	var found []parsers.PodUID
	for uid := range l.runtime.Ready() {
		if _, ok := l.Kind(string(uid)); ok {
			found = append(found, uid)
		}
	}
	return found
}
