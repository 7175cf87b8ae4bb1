package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// patience is how long a dead pod may take to leave from the moment at which nothing keeps it: the kubelet's start, the hold and the confirm
// time, and two looks, whose distance is five minutes at the most. After trouble some things are tried again at longer and longer intervals, up to an hour, and file times may lie
// ahead of the clock.
func (n *node) patience() time.Duration {
	r := n.rules
	d := r.Hold + r.Confirm + 10*time.Minute + time.Duration(len(n.pods))*turn
	if slices.ContainsFunc(n.acts, func(a act) bool { return a.kind > podCompletes }) {
		d += 2*time.Hour + n.back
	}
	return d
}

// turn is how long each pod of a backlog may hold up the next: a kubelet reports one at a time.
const turn = 15 * time.Second // two looks have at least 10 s between them, and each takes some

// ends judges what is left once nothing more has happened for long.
func (o *oracle) ends(n *node) {
	if o.failed != "" {
		return
	}
	for _, p := range n.pods {
		if d := n.dirs[p.uid]; d != nil {
			if why := n.keeps(p, d); why == "" {
				o.fail(n, "%s is dead, nothing keeps it, and its directory is still there; the reasons given are %v", p, o.reasons(p))
			}
		}
		begun := max(p.since, n.booted+n.kubelet.id.Start, n.calm)
		if p.wanted && !p.waits && !p.done && !p.runs() && p.stage != hasVolumes && n.now-begun > 10*time.Minute {
			o.fail(n, "%s is wanted and cannot start", p)
		}
	}
	if err := n.program.store.Refresh(); err != nil {
		o.fail(n, "the ledger cannot be read at the end: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		d := n.quarantine[name]
		e := n.program.store.Entries()[name]
		if e == nil || e.Phase.Over() {
			o.fail(n, "%s lies in quarantine, and the ledger does not have it", n.byUID[d.uid])
			continue
		}
		// The two have changed places, and the newer one could not get its own name: the elder may have left by now.
		if e.Phase == policy.PhasePutting && d.id != e.ID {
			continue
		}
		due := n.now-d.parked > n.rules.Confirm+5*time.Minute
		if e.Phase == policy.PhaseConfirmed && n.agedFor(d) > n.rules.Retention+10*time.Minute && n.keeps(n.byUID[d.uid], d) == "" {
			o.fail(n, "the emptyDir of %s lies in quarantine %s after it was confirmed dead", n.byUID[d.uid], n.agedFor(d))
		}
		if due && (e.Phase == policy.PhaseParked || e.Phase.Intent()) && n.keeps(n.byUID[d.uid], d) == "" {
			o.fail(n, "%s was parked %s ago, and what holds no data is still there (%s)", n.byUID[d.uid], n.now-d.parked, e.Phase)
		}
	}
}

// agedFor is for how long an emptyDir has lain in quarantine since its pod was confirmed; 0 is none.
func (n *node) agedFor(d *dir) time.Duration {
	if d.has[contents.ClassEphemeral] == 0 || d.confirmed == 0 {
		return 0
	}
	return n.now - max(d.confirmed, n.booted) - n.back // over a reboot only the wall clock counts on
}

// keeps is what truly keeps a pod's directory where it is; "" is nothing.
func (n *node) keeps(p *pod, d *dir) string {
	switch {
	case p.alive():
		return "it lives"
	case p.admitted || p.ending:
		return "the kubelet has it"
	case p.cgroup:
		return "it has a cgroup"
	case slices.ContainsFunc(p.sandboxes, func(s sandbox) bool { return s.ready || s.runs }):
		return "the runtime has a sandbox"
	case len(d.mounts) > 0:
		return "something is mounted in it"
	case d.csi > 0 && n.runtime.staged[d.csi]:
		return "its volume is staged"
	case p.restored:
		return "the operator restored it"
	case p.held:
		return "the kubelet tears down its volume"
	case n.listsNothing():
		return "the runtime lists no pod"
	case len(n.parkedMounts(p)) > 0:
		return "something is mounted in what lies of it in quarantine"
	case d.entry == "" && n.hides(p):
		return "the kubelet reports another before it"
	}
	return ""
}

func (n *node) listsNothing() bool {
	return !slices.ContainsFunc(n.pods, func(q *pod) bool { return len(q.sandboxes) > 0 })
}

func (n *node) parkedMounts(p *pod) []mount {
	_, parked := n.mountsOf(p.uid)
	return parked
}

// hides reports whether the kubelet reports another pod before this one, and something keeps the directory of that one.
func (n *node) hides(p *pod) bool {
	first := p
	for _, q := range n.pods {
		if d := n.dirs[q.uid]; d != nil && q.uid < first.uid && !q.admitted && !q.held && !q.cgroup && d.stuck() && !d.mountedHere() {
			first = q
		}
	}
	return first != p && n.keeps(first, n.dirs[first.uid]) != ""
}

// reasons returns why the program keeps a pod.
func (o *oracle) reasons(p *pod) []policy.Why {
	for v := range policy.At(o.report.Pods, policy.InPlace) {
		if v.UID == p.uid {
			return v.Why
		}
	}
	return nil
}
