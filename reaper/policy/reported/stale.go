package reported

import (
	"fmt"
	"path"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// goesStale has the state files that still name a pod after the kubelet has let it go, until
// something else makes the kubelet write them (source of 1.19, 1.21, 1.24, 1.27, 1.30, 1.33, 1.34, 1.36):
//   - allocated_pods_state and actuated_pods_state, since 1.33, are written when a pod is taken
//     in or resized. RemovePod and RemoveOrphanedPods leave the file as it is.
//   - kubelet_internal_checkpoint is written when devices are allocated or a plugin reports its
//     devices. Only an allocation forgets the pods that are gone.
//   - memory_manager_state, since 1.21: what the end of a container did not take out stays until
//     the next pod is taken in.
//   - pod_status_manager_state is of 1.27 to 1.32. Later kubelets neither read nor remove it.
//
// Of cpu_manager_state and dra_manager_state the kubelet takes such pods out by itself, every
// 10 s and, since 1.33, every minute.
var goesStale = map[string]bool{
	"allocated_pods_state": true, "actuated_pods_state": true, "kubelet_internal_checkpoint": true,
	"memory_manager_state": true, "pod_status_manager_state": true,
}

// staleSlack is what the times of a file and of a log line may differ by without saying which
// was first: file times are those of the last tick, and a line is written after its time is read.
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

// unwrittenSince reports whether none of the files that name the pod was written after at. Both
// clocks must say so: the wall clock may have been set meanwhile.
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

// discount makes the fact kubelet_file a No where the state file is stale: since it was written the running
// kubelet has reported the pod as an orphan, or its complete list has come without the pod. It reports no pod
// that it knows.
func (l *Log) discount(e *policy.Evidence, now policy.Instant) {
	if e.FilesGoStale = goStale(e); !e.FilesGoStale {
		return
	}
	if at, ok := l.NamedAt[e.UID]; ok && unwrittenSince(e, at, now) {
		discount(e, "the kubelet has named the pod as an orphan since")
	} else if e.Omitted && lastWritten(e).Add(staleSlack).Before(now.Wall) {
		discount(e, "the kubelet's complete list does not contain the pod")
	}
}

// rewritten is how much older than the parking a state file must be to be the one that was
// judged then: a look may have read it some time before.
const rewritten = 5 * time.Minute

// CompleteEntry does for a pod in quarantine what Complete does for the others, as far as it is a sign of life.
// A state file that goes stale is one only where it was written since the pod was parked. A kubelet
// that has started since writes what it read at its start, and it is not known whether it has admitted
// the pod: such a file then shows nothing.
func (l *Log) CompleteEntry(e *policy.Evidence, n policy.Node, s policy.EntryState, now policy.Instant) {
	current := n.Kubelet.Truth == policy.Yes && l.Kubelet == n.KubeletID
	if current {
		if l.Named[e.UID] {
			e.Facts[policy.FactNamed].Truth = policy.Yes
		}
		l.omit(e, now)
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

// seenBefore reports whether looks have seen each of the files as it is now since before the pod was parked. That
// holds whatever the wall clock was set to since.
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
