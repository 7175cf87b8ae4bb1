package judge

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// Unmountable returns the verdict on an operator's `unmount`: Remove if the pod is dead but for what is mounted in it. The
// kubelet's text that it still has volumes of the pod releases it, too: then these mounts are what it waits for. No hold
// is needed, since an unmount that is not lazy fails while anything uses the mount.
func Unmountable(c Case) Verdict {
	facts := c.facts()
	if Credible(c.Log.Volumes, c.Node, c.Now) == "" {
		facts[Reported] = Fact{Truth: Yes, Source: c.Log.Volumes.Source, Detail: c.Log.Volumes.Words}
	}
	v, _ := c.judge(facts, Mounted, Eligible)
	return v
}

// RestoreOrder returns the move for an operator's `quarantine restore`, or why that is refused. replace is the flag of that
// name: the pod's new directory goes to quarantine.
func RestoreOrder(e Entry, p Pod, replace bool, by *User) (m Move, refused string) {
	m = orderOf(e, Restore, content.None, by)
	switch {
	case e.open():
		return m, unfinished
	case p.Present == No:
		return m, ""
	case p.Present == Unknown:
		return m, "it is not known whether the pod has another directory: " + p.Facts[Directory].Detail
	case !replace:
		return m, "the pod has another directory: `--replace` moves that one to quarantine"
	case p.Facts[Mounted].Truth != No:
		return m, "something is mounted in the pod's new directory, or that is not known: " + p.Facts[Mounted].Detail
	}
	m.Action, m.Replace = Exchange, true
	return m, ""
}

// PurgeOrder returns the move for an operator's `quarantine purge`, or why that is refused.
func PurgeOrder(e Entry, p Pod, by *User) (m Move, refused string) {
	m = orderOf(e, Purge, content.All, by)
	m.Resumed = e.Phase == Purging
	alive, unknown := Alive(p)
	switch {
	case e.open() && e.Phase != Purging:
		return m, unfinished
	case p.Facts[Mounted].Truth == Yes:
		return m, "something of this pod is mounted: " + p.Facts[Mounted].Detail
	case p.Facts[Mounted].Truth == Unknown:
		return m, "it is not known whether something is mounted in it: " + p.Facts[Mounted].Detail
	case e.Phase == InConflict: // the pod is alive, and this is not its directory any more
		return m, ""
	case len(alive) > 0:
		return m, "the pod is alive: " + alive[0].Detail
	case unknown:
		return m, "it is not known whether the pod is alive: " + strings.Join(p.unknown(), "; ")
	case e.Phase == Quarantined:
		return m, "the pod is not confirmed dead yet: wait for `confirm`, or restore it"
	}
	return m, ""
}

const unfinished = "an earlier step is not finished: run `orphan-reaper sweep --no-wait`"

// open reports whether an intent of the entry has no result yet.
func (e *Entry) open() bool {
	switch e.Phase {
	case Moving, Restoring, Cleaning, Purging:
		return true
	case Quarantined, Retained, InConflict:
	}
	return false
}

func orderOf(e Entry, action Action, remove content.Set, by *User) Move {
	return Move{
		Action: action, UID: e.UID, Entry: e.Name, ID: e.ID, Remove: remove,
		Namespace: e.Namespace, PodName: e.PodName, Static: e.Static, By: by,
	}
}

// unknown returns the details of the facts of Alive that could not be read.
func (p *Pod) unknown() (details []string) {
	for _, r := range table {
		if f := p.Facts[r.fact]; askedOfEntries(r.fact) && f.Truth == Unknown {
			details = append(details, r.fact.String()+": "+f.Detail)
		}
	}
	return details
}
