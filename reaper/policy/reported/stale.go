package reported

import (
	"fmt"
	"path"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// goesStale has the state files that may name a pod after the kubelet has released it, until it writes them for another
// reason (source of 1.19 to 1.36). It removes such pods from cpu_manager_state and dra_manager_state by itself.
//   - allocated_pods_state and actuated_pods_state (1.33): written when a pod is admitted or resized.
//   - kubelet_internal_checkpoint: only an allocation of devices forgets the pods that are gone.
//   - memory_manager_state (1.21): what the end of a container left stays until the next pod is admitted.
//   - pod_status_manager_state (1.27 to 1.32): later kubelets neither read nor remove it.
var goesStale = map[string]bool{
	"allocated_pods_state": true, "actuated_pods_state": true, "kubelet_internal_checkpoint": true,
	"memory_manager_state": true, "pod_status_manager_state": true,
}

// staleSlack is by how much the times of a file and of a log line may differ without showing which was first.
const staleSlack = 2 * time.Second

// goStale reports whether all files that name the pod are of those that go stale.
func goStale(e *policy.Evidence) bool {
	for _, f := range e.StateFiles {
		if !goesStale[path.Base(f.Name)] {
			return false
		}
	}
	return len(e.StateFiles) > 0 && e.Facts[policy.FactKubeletFile].Truth == policy.Yes
}

// unwrittenSince reports whether none of the files that name the pod was written after at, by both clocks: the wall clock
// may have been set meanwhile.
func unwrittenSince(e *policy.Evidence, at, now policy.Instant) bool {
	since, ok := now.Since(at)
	for _, f := range e.StateFiles {
		if age := now.Wall.Sub(f.Written); !ok || !f.Written.Add(staleSlack).Before(at.Wall) || since+staleSlack >= age {
			return false
		}
	}
	return true
}

// discount makes the fact kubelet_file a No: a sign of life is discarded. The package's doc and
// docs/why-it-is-safe.md name it.
func discount(e *policy.Evidence, since string) {
	f := &e.Facts[policy.FactKubeletFile]
	f.Truth = policy.No
	f.Detail += fmt.Sprintf(", as it was last written at %s; %s", lastWritten(e).UTC().Format(time.RFC3339), since)
}

func lastWritten(e *policy.Evidence) time.Time {
	var last time.Time
	for _, f := range e.StateFiles {
		if f.Written.After(last) {
			last = f.Written
		}
	}
	return last
}

// discount makes the fact kubelet_file a No if the state file is stale: since it was written the running kubelet has reported
// the pod as an orphan.
func (l *Log) discount(e *policy.Evidence, now policy.Instant) {
	if e.FilesGoStale = goStale(e); !e.FilesGoStale {
		return
	}
	if at, ok := l.Named[e.UID]; ok && unwrittenSince(e, at, now) {
		discount(e, "the kubelet has named the pod as an orphan since")
	}
}

// rewritten is how much older than the parking a state file must be to be the one that was judged then.
const rewritten = 5 * time.Minute

// CompleteEntry does for a pod in quarantine what Complete does for the others. A state file that goes stale is a sign of
// life only if it was written since the pod was parked, and by the same kubelet: another one writes what it read at its
// start.
func (l *Log) CompleteEntry(e *policy.Evidence, n policy.Node, s policy.EntryState, now policy.Instant) {
	current := n.Kubelet.Truth == policy.Yes && l.Kubelet == n.KubeletID
	if _, named := l.Named[e.UID]; named && current {
		e.Facts[policy.FactNamed].Truth = policy.Yes
	}
	f := &e.Facts[policy.FactKubeletFile]
	if f.Truth == policy.Yes && len(e.StateFiles) == 0 {
		f.Truth, f.Detail = policy.Unknown, f.Detail+", and as not all of them could be read, it is not known since when"
	}
	if !goStale(e) {
		return
	}
	judged := s.Parked.At
	judged.Wall, judged.Boot = judged.Wall.Add(-rewritten), judged.Boot-rewritten
	switch {
	case seenBefore(e, s.Parked), unwrittenSince(e, judged, now):
		discount(e, "the pod was parked after that")
	case n.Kubelet.Truth != policy.Yes || n.KubeletID != s.Parked.Kubelet:
		f.Truth = policy.Unknown
	case current:
		l.discount(e, now)
	}
	switch {
	case f.Truth != policy.Yes:
	case clockSet(s.Parked.At, now), lastWritten(e).After(now.Wall.Add(staleSlack)):
		f.Truth, f.Detail = policy.Unknown, f.Detail+"; the clock was set since the pod was parked, so it is not known whether the file is younger"
	case unwrittenSince(e, s.Parked.At, now): // the list that omitted the pod then may not have been read now
		f.Truth, f.Detail = policy.Unknown, f.Detail+", as it did before the pod was parked"
	}
}

// seenBefore reports whether looks have seen each of the files as it is now since before the pod was parked, whatever the
// wall clock was set to since.
func seenBefore(e *policy.Evidence, p policy.Parked) bool {
	for _, f := range e.StateFiles {
		if _, ok := p.Begun.Since(f.Seen); !ok {
			return false
		}
	}
	return true
}

// clockSet reports whether the wall clock was set since then, by more than a clock that is kept right is slewed.
func clockSet(since, now policy.Instant) bool {
	age, ok := now.Since(since)
	return ok && (now.Wall.Sub(since.Wall)-age).Abs() > staleSlack+age/1000
}
