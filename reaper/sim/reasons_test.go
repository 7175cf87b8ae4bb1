package sim

import (
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// passed judges a pass that has ended: each reason that the program gives must be so in the world, at the moment at which its source was read.
func (o *oracle) passed(n *node) {
	r := o.readings
	if r == nil || !n.program.up {
		return
	}
	o.knows(n)
	if o.lives != nil && !o.open && n.faults.last < o.looked {
		o.fail(n, "%s was parked and turned out to live, and the breaker did not open", o.lives)
	}
	for _, d := range o.moved {
		o.stays(n, d)
	}
	for i, p := range n.pods {
		if r.of[i].static {
			p.shown, p.shownAt = true, o.looked
		}
		if of := &r.of[i]; of.ready || of.container || of.cgroup || of.mounted {
			o.signs[p.uid] = o.looked
		}
		g := o.good[p.uid]
		o.good[p.uid] = goodness{sum: g.until(o.looked), looked: o.looked, doubt: r.mountErr != nil || r.cgroupErr != nil || r.runtimeErr() != nil}
		if o.signs[p.uid] == o.looked || r.of[i].seen == nil {
			o.good[p.uid] = goodness{looked: o.looked}
		}
	}
	for v := range policy.At(o.report.Pods, policy.InPlace, policy.InRuntime) {
		p := n.byUID[v.UID]
		if len(v.Why) == 0 && o.idle(n, p) {
			o.fail(n, "the program keeps %s, and gives no reason", p)
		}
		for _, w := range v.Why {
			if !r.so(p, w.Reason) {
				o.fail(n, "the program keeps a pod for %s, which is not so (%s, %s)", w.Reason, w.Detail, p)
			}
		}
	}
}

// idle reports whether a pass did nothing to a pod, though nothing that came up after its look forbade it.
func (o *oracle) idle(n *node, p *pod) bool {
	acted := slices.ContainsFunc(o.report.Outcomes, func(out policy.Outcome) bool {
		return out.Action.UID == p.uid || out.Result == policy.Gone // what an operator purged proves nothing, and the next waits for a look
	})
	stopped := o.open && !o.wasOpen
	return !acted && !stopped && n.faults.broken < o.looked
}

// knows records which pods the program knows to be static: it remembers that for as long as the pod has a directory, unless it could not be
// written down.
func (o *oracle) knows(n *node) {
	has := map[parsers.PodUID]bool{}
	for e := range policy.At(o.report.Pods, policy.InPlace, policy.InQuarantine, policy.Resting) {
		has[e.UID] = true
	}
	for _, p := range n.pods {
		p.known = has[p.uid] && (p.known || o.readings.of[p.index].static && n.faults.last < o.looked)
	}
}

// so reports whether a reason for keeping a pod is true. One that this node never gives, and a new one, is not.
func (r *readings) so(p *pod, reason policy.Reason) bool {
	n, i := r.node, p.index
	d := r.of[i].seen
	switch reason { //nolint:exhaustive // the others are never given by this node
	case policy.ReasonMounted:
		return r.of[i].mounted
	case policy.ReasonMountsUnknown:
		return r.mountErr != nil
	case policy.ReasonSandbox:
		return r.of[i].ready
	case policy.ReasonContainer:
		return r.of[i].container
	case policy.ReasonRuntimeUnknown:
		return r.runtimeErr() != nil && r.lists.Truth != policy.No
	case policy.ReasonRuntimeEmpty:
		return r.lists.Truth == policy.No
	case policy.ReasonCgroup:
		return r.of[i].cgroup
	case policy.ReasonCgroupUnknown:
		return r.cgroupErr != nil
	case policy.ReasonNotRunning:
		return r.of[i].cgroup && !r.of[i].busy
	case policy.ReasonKubeletUnknown:
		return true // also where no line was read yet
	case policy.ReasonNotReported:
		return r.kubeletOK && !n.log.reported(p, n.oracle.looked, r.id)
	case policy.ReasonKubeletHolds:
		return n.log.tornDown[p.uid].run > 0
	case policy.ReasonKubeletLists:
		return r.list.Own.Pods[p.uid]
	case policy.ReasonStaged:
		return d != nil && d.csi > 0
	case policy.ReasonInUse:
		return r.of[i].used || r.useErr != nil
	case policy.ReasonRestored:
		return p.restored || n.oracle.restores(p)
	case policy.ReasonYoung:
		return d != nil && r.at.Wall.Sub(d.changed) < n.rules.Hold
	case policy.ReasonHold:
		return true // its end is what patience measures
	case policy.ReasonContentUnknown:
		return r.contentErr != nil || r.of[i].ready || r.of[i].busy
	case policy.ReasonCannotMove:
		return n.faults.refused > 0
	case policy.ReasonLimit:
		return n.rules.MaxPerLook > 0
	case policy.ReasonBreaker:
		return n.oracle.open || n.faults.broken >= n.oracle.looked // else it could not be written, and the program remembers it
	case policy.ReasonObserve:
		return n.observes
	case policy.ReasonNamespaces:
		return r.mayEnforce.Truth != policy.Yes
	case policy.ReasonContradiction:
		return r.agrees.Truth != policy.Yes
	}
	return false
}

// restores reports whether a restore of the pod was begun when the look began, and the ledger has no outcome of it.
func (o *oracle) restores(p *pod) bool {
	for entry, kind := range o.begun {
		if kind == policy.KindRestoring && strings.HasPrefix(entry, string(p.uid)) {
			return true
		}
	}
	return false
}
