package judge

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// judgeEntry returns the verdict on an entry of the quarantine, and what is due.
//
//	quarantined, alive                             restored; exchanged if the new directory has only a skeleton; else a conflict
//	quarantined, confirm passed, nothing Unknown   cleaned of what the kubelet made
//	retained, retention passed, nothing Unknown    cleaned of what is ephemeral, too
//	intent of a clean or purge without a result    the same again
//	anything Unknown, anything mounted             waits
//	a step that failed                             is tried again after five minutes, then ten, up to six hours
func judgeEntry(in Input, name string, e Entry) JudgedEntry {
	e.Name = name
	j := JudgedEntry{Entry: e, Verdict: Verdict{Decision: Remove}}
	p, ok := in.Snapshot.Pod(e.UID)
	if !ok { // it was not scanned
		j.keep(Wait, Confirming, "the pod was not part of this scan")
		return j
	}
	j.Static = j.Static || p.Static // at the move its sandbox may have been gone
	reasons, unknown := Alive(*p)
	switch {
	case e.Phase == Moving || e.Phase == Restoring: // it is not known yet where the directory is
		j.keep(Wait, Confirming, "an earlier step is not finished")
	case e.Phase == InConflict:
		j.ask(InUse, "the pod is alive and has another directory")
	// A restore that failed has no Failures, and is tried again after its time. A clean that failed must not delay it, and one
	// that is not finished must not go on.
	case len(reasons) > 0 && (e.Failures > 0 || e.open() || e.retryIn(in.Now) == 0):
		j.alive(in, p, reasons)
	case e.retryIn(in.Now) > 0 && !e.open():
		j.ask(StepFailed, e.Err)
	case unknown || p.Facts[Mounted].Truth != No:
		j.waits(in, p)
	default:
		j.dead(in)
	}
	return j
}

// tryAgain is how long after a failed step the same step is tried again. It doubles each time, up to longestRetry: the ledger
// keeps all events of an entry, and the journal gets each failure.
const (
	tryAgain     = 5 * time.Minute
	longestRetry = 6 * time.Hour
)

// backoff returns how long after the last of so many failures the next try is.
func backoff(failures int) time.Duration {
	wait := tryAgain
	for ; failures > 1 && wait < longestRetry; failures-- {
		wait *= 2
	}
	return min(wait, longestRetry)
}

// retryIn returns after how long the step that failed is tried again, 0 if none failed or the time has passed.
func (e *Entry) retryIn(now Instant) time.Duration {
	since, ok := now.Since(e.FailedAt)
	if e.Err == "" || !ok {
		return 0
	}
	return max(0, backoff(e.Failures)-since)
}

// alive plans the way back of an entry whose pod is alive.
func (j *JudgedEntry) alive(in Input, p *Pod, reasons []Reason) {
	j.Decision, j.Reasons = IsAlive, reasons
	if j.Phase != Quarantined || j.Partly {
		// Some of it is removed already: an old kubelet that found such a directory would delete through its binds. The
		// pod has what it has made since, and the rest waits for an operator.
		if j.ask(InUse, "a part of what was quarantined is removed already, so it is not restored"); j.open() {
			j.Due = j.due(Leave, content.None) // the intent gets a result, so that an operator's orders are possible
		}
		return
	}
	action := Restore
	switch {
	case p.Present == No:
	case p.SkeletonOnly == Yes && p.Facts[Mounted].Truth == No: // a container that runs has files of it mounted
		action = Exchange
	default:
		j.ask(InUse, "the pod has another directory, which is in use")
		j.Due = j.due(Leave, content.None)
		return
	}
	if in.Permit.MayRestore() {
		j.Due = j.due(action, content.None)
	}
}

// waits adds the facts that are not known, or the mount, for which the entry waits.
func (j *JudgedEntry) waits(in Input, p *Pod) {
	for _, r := range table {
		if f := p.Facts[r.fact]; r.fact == Mounted && f.Truth != No || f.Truth == Unknown && askedOfEntries(r.fact) {
			j.keep(Wait, r.reason, f.Detail)
			j.Reasons[len(j.Reasons)-1].Unknown = f.Truth == Unknown
		}
	}
	if len(j.Reasons) == 0 {
		j.keep(Wait, BadDirectory, "it is not known whether the pod has a new directory")
	}
	if left := in.confirm(j.Entry); j.Phase == Quarantined && left != "" {
		j.keep(Wait, Confirming, left)
	}
}

// dead plans what is due for an entry of which nothing shows that its pod is alive.
func (j *JudgedEntry) dead(in Input) {
	switch j.Phase {
	case Quarantined:
		if left := in.confirm(j.Entry); left != "" {
			j.keep(Wait, Confirming, left)
			return
		}
		j.clean(in, content.Payloads)
	case Cleaning, Purging:
		if j.clean(in, j.Remove); j.Due == nil {
			return
		}
		if j.Due.Resumed = true; j.Phase == Purging {
			j.Due.Action, j.Due.By = Purge, j.By
		}
	case Retained:
		left, ephemeral := in.retention(j.Entry)
		switch {
		case ephemeral && left > 0:
			j.keep(Wait, Retention, fmt.Sprintf("emptyDirs and ephemeral volumes are removed in %s", left.Round(time.Second)))
		case ephemeral:
			j.clean(in, content.Aged)
		default:
			j.keep(Keep, HoldsData, "what is left may be a user's data")
		}
	case Moving, Restoring, InConflict:
		j.keep(Wait, Confirming, "an earlier step is not finished")
	}
}

// clean plans a removal, or says what stops it.
func (j *JudgedEntry) clean(in Input, remove content.Set) {
	j.Decision = Remove
	if why, stopped := in.Permit.Stopped(); !stopped {
		j.Due = j.due(Clean, remove)
	} else if why.Reason != DryRun {
		j.keep(Wait, why.Reason, why.Detail)
	}
}

func (j *JudgedEntry) due(action Action, remove content.Set) *Move {
	return &Move{
		Action: action, UID: j.UID, Entry: j.Name, ID: j.ID, Remove: remove,
		Namespace: j.Namespace, PodName: j.PodName, Static: j.Static, Reasons: j.Reasons,
	}
}

// confirm returns why the confirm time has not passed, "" if it has. It has to pass in this boot and under a kubelet that
// runs: no other program makes a living pod's directory again.
func (in *Input) confirm(e Entry) string {
	n := in.Snapshot.Node
	if n.KubeletKnown.Truth != Yes {
		return "no kubelet runs that would make the directory of a living pod again: " + n.KubeletKnown.Detail
	}
	left := in.confirmLeft(e)
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("moved, or the kubelet has started, %s ago: a pod that is alive shows that within %s",
		(in.Settings.Confirm - left).Round(time.Second), in.Settings.Confirm)
}

// confirmLeft returns how much of the confirm time is left. After a boot the kubelet makes the directories of its pods again.
func (in *Input) confirmLeft(e Entry) time.Duration {
	waited := in.Now.Boot - in.Snapshot.Node.Kubelet.Start
	if since, ok := in.Now.Since(e.MovedAt); ok {
		waited = min(waited, since)
	}
	return in.Settings.Confirm - waited
}

// entryLeft returns after how long time alone may change what is due for an entry, 0 if it does not.
func (in *Input) entryLeft(e Entry) time.Duration {
	if left := e.retryIn(in.Now); left > 0 {
		return left
	}
	switch e.Phase {
	case Quarantined:
		return in.confirmLeft(e)
	case Retained:
		left, _ := in.retention(e)
		return left
	case Moving, Restoring, Cleaning, Purging, InConflict:
	}
	return 0
}
