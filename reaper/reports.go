package reaper

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// mostReported bounds the pods whose reports are remembered: a kubelet reports one or two a sweep, at -v=5 all orphans.
const mostReported = 100_000

// forgetAfter is how long after its last report a pod is forgotten.
const forgetAfter = time.Hour

// reports are the kubelet's last reports by pod.
type reports struct {
	last map[parsers.PodUID]judge.Log
}

// add remembers a credible report. It returns true if the last one about the pod counts no more: the next scan judges the pod
// anew. Else a repeated line starts nothing.
func (r *reports) add(l judge.Logged, n judge.Node, now judge.Instant) (fresh bool) {
	if r.last == nil {
		r.last = map[parsers.PodUID]judge.Log{}
	}
	log, known := r.last[l.UID]
	if !known && len(r.last) >= mostReported {
		r.forget(now)
		if len(r.last) >= mostReported {
			return false
		}
	}
	if log.First.IsZero() {
		log.First = l.Written()
	}
	was := log.Removal
	if l.Kind == parsers.Volumes {
		was, log.Volumes = log.Volumes, l
	} else {
		log.Removal = l
	}
	r.last[l.UID] = log
	return judge.Credible(was, n, now) != ""
}

// forget removes the pods that were not reported for an hour.
func (r *reports) forget(now judge.Instant) {
	for uid, log := range r.last {
		if old(log.Removal.At, now) && old(log.Volumes.At, now) {
			delete(r.last, uid)
		}
	}
}

func old(at, now judge.Instant) bool {
	since, ok := now.Since(at)
	return !ok || since > forgetAfter
}

// status returns the status of a judged pod with what the kubelet logged about it.
func (r *reports) status(j judge.Judged, n judge.Node, now judge.Instant) PodStatus {
	s := PodStatus{Judged: j, Count: parsers.NoCount}
	log, ok := r.last[j.UID]
	if !ok || j.UID == "" {
		return s
	}
	s.volumes = judge.Credible(log.Volumes, n, now) == ""
	last := log.Removal
	if last.At.Boot < log.Volumes.At.Boot {
		last = log.Volumes
	}
	s.Words, s.Count = last.Words, last.Count
	s.FirstReport, s.LastReport = log.First, last.Written()
	return s
}
