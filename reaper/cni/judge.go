package cni

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Listing is the set of containers that the runtime has listed since a moment, in an unbroken series of
// complete answers. It is one hold for all files: container IDs are never reused, so an ID that is not in the
// set has been absent in every look since. Its memory grows with the living containers, not with the residue.
type Listing struct {
	Since policy.Instant  `json:"since"`
	IDs   map[string]bool `json:"ids"`
}

// Listings are two overlapping listings, so that containers of long ago are forgotten. Judge uses the older one;
// after a hold the younger replaces it.
type Listings struct {
	Older   Listing `json:"older"`
	Younger Listing `json:"younger"`
}

// Add adds the answer of the runtime at now: the full IDs of all sandboxes and containers. An incomplete answer
// and another boot restart the series.
func (l *Listings) Add(ids []string, whole policy.Truth, hold time.Duration, now policy.Instant) {
	if whole != policy.Yes {
		*l = Listings{}
		return
	}
	if _, ok := now.Since(l.Older.Since); !ok {
		l.Older = Listing{Since: now}
	}
	if _, ok := now.Since(l.Younger.Since); !ok {
		l.Younger = Listing{Since: now}
	}
	if since, _ := now.Since(l.Younger.Since); since >= hold {
		l.Older, l.Younger = l.Younger, Listing{Since: now}
	}
	for _, g := range [...]*Listing{&l.Older, &l.Younger} {
		if g.IDs == nil {
			g.IDs = map[string]bool{}
		}
		for _, id := range ids {
			g.IDs[id] = true
		}
	}
}

// rules lists for each fact the one truth that allows a removal, and the reasons for which others keep the file.
var rules = [...]struct {
	fact     FactName
	dead     policy.Truth
	alive    policy.Reason
	unknown  policy.Reason
	waivable bool
}{
	{Tied, policy.Yes, policy.ReasonUntied, policy.ReasonUntied, false},
	{Listed, policy.No, policy.ReasonSandbox, policy.ReasonRuntimeUnknown, true},
	{Alive, policy.No, policy.ReasonInUse, policy.ReasonInUse, false},
	{Netns, policy.No, policy.ReasonNetns, policy.ReasonNetns, false},
	{Foreign, policy.No, policy.ReasonForeign, policy.ReasonForeign, false},
}

// Judge decides about one file that CNI wrote. The file may be removed when its sandbox is provably gone (absent
// from the runtime in every look for a hold, without a task, a cgroup or a network namespace) and it is older than
// Rules.CNIOlderThan. If we removed the pod's directory, it need only be older than a hold.
//
// A broken cache file may also be removed while its sandbox is listed and not ready: it blocks the teardown of that
// sandbox. Without the file the runtime still calls the plugin to delete.
func Judge(f *File, n policy.Node, l Listing, r policy.Rules, now policy.Instant) policy.Verdict {
	v := policy.Verdict{Decision: policy.Reap}
	if r.Waive {
		v.Waived()
	} else {
		v.NeedKubelet(n)
	}
	repair := f.BrokenCache() && f.Facts[Listed].Truth == policy.Yes && f.Facts[Ready].Truth == policy.No
	for _, rule := range rules {
		switch fact := f.Facts[rule.fact]; {
		case fact.Truth == rule.dead:
		case repair && (rule.fact == Listed || rule.fact == Netns):
			// The file blocks the teardown of its sandbox.
		case fact.Truth != policy.Unknown:
			v.KeepFor(rule.alive, fact.Detail)
		case rule.waivable && r.Waive:
		case rule.unknown == policy.ReasonRuntimeUnknown && n.RuntimeLists.Truth == policy.No:
			v.KeepFor(policy.ReasonRuntimeEmpty, n.RuntimeLists.Detail)
		default:
			detail := fact.Detail
			if detail == "" {
				detail = rule.fact.String() + " is not known"
			}
			v.KeepFor(rule.unknown, detail)
		}
	}
	good := v.Decision == policy.Reap
	least := max(r.CNIOlderThan, r.Hold)
	if f.Reaped || repair {
		least = r.Hold
	}
	v.Aged("file", f.Changed, least, least.String(), now)
	if good && !r.Waive {
		absent(&v, f, l, repair, r, now)
	}
	return v
}

// absent makes the verdict wait until the runtime has not listed the container for a hold, in at least two looks.
// The file must be older than the first of them. A repaired container is listed: only its file's age shows that no
// program is writing it.
func absent(v *policy.Verdict, f *File, l Listing, repair bool, r policy.Rules, now policy.Instant) {
	since, ok := now.Since(l.Since)
	if !ok || (r.Hold > 0 && !f.Changed.Before(l.Since.Wall)) {
		since = 0
	}
	v.Good(since, r)
	if since >= r.Hold && !repair && l.IDs[f.Container] {
		v.WaitFor(r.Hold, policy.ReasonHold, "the runtime listed the container recently")
	}
}

// OutlookOf returns the outlook of a verdict on a file. ReasonInUse means that its container is alive.
func OutlookOf(d policy.Decision, why []policy.Why) policy.Outlook {
	if d == policy.Keep && slices.ContainsFunc(why, func(w policy.Why) bool { return w.Reason == policy.ReasonInUse }) {
		return policy.OutlookAlive
	}
	return policy.OutlookOf(d, why)
}
