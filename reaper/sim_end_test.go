package reaper_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// simulate lives the scenario through, and returns the node as it is then.
func simulate(s scenario, telling bool) *node {
	n := &node{
		scenario: s, dice: rand.New(rand.NewPCG(s.throw, 1)), telling: telling, inodes: 100, trouble: -time.Hour,
		byUID: map[parsers.PodUID]*pod{}, tree: tree{map[parsers.PodUID]*dir{}, map[string]*dir{}}, volumes: map[int]bool{},
	}
	n.kubelet, n.log = kubelet{node: n}, kubeletLog{node: n}
	n.memory = &memory{node: n, files: map[string]*file{}, unwritten: -time.Hour}
	n.oracle.init()
	for i, has := range s.pods {
		p := &pod{spec: has, index: i}
		n.pods, n.byUID[p.uid] = append(n.pods, p), p
	}
	for _, a := range s.acts {
		n.after(a.at, func() {
			if a.step == atOnce {
				n.act(a)
			} else {
				n.waiting = append(n.waiting, a)
			}
		})
	}
	n.now = time.Hour // the machine has run for long
	for i := range n.queue {
		n.queue[i].at += time.Hour
	}
	n.calm += time.Hour
	n.kubelet.begin()
	n.after(n.between(0, time.Minute), n.start)
	n.run(n.calm)
	n.calmDown()
	for end := n.now + n.patience(); n.now < end && n.oracle.failed == "" && !n.settled(); {
		n.run(min(end, n.now+5*time.Minute))
		if n.oracle.open {
			n.order(operatorResumes, n.pods[0])
		}
	}
	n.oracle.ends(n)
	n.oracle.idles(n)
	return n
}

// calmDown ends everything that is out of order. From now on nothing happens to the node.
func (n *node) calmDown() {
	n.tell("from now on nothing happens to the node")
	n.waiting, n.faults, n.now = nil, [numKinds + 1]int{}, n.now+1
	n.trouble = n.now
	for _, p := range n.pods {
		p.texts = 0
	}
	n.kubelet.two = false
	n.kubelet.begin()
	n.start()
	if n.oracle.open {
		n.order(operatorResumes, n.pods[0])
	}
}

// patience is how long a dead pod may take to go once nothing keeps it: a NodePublish, the hold, and for each pod the time to
// its report; then confirm. What has failed is tried again after five minutes.
func (n *node) patience() time.Duration {
	d := 20*time.Minute + n.settings.Confirm + time.Duration(len(n.pods))*2*time.Minute
	if slices.ContainsFunc(n.pods, func(p *pod) bool { return p.returned > 0 }) {
		d += 10 * n.settings.Hold
	}
	return d
}

// keeps returns what truly keeps a pod's directory where it is; "" is nothing.
func (n *node) keeps(p *pod) string {
	switch d := n.dirs[p.uid]; {
	case n.settings.Observe:
		return "mode observe"
	case p.alive() || p.admitted || p.ending || n.shows(p):
		return "it is alive"
	case len(n.mountsOf(p.uid)) > 0:
		return "something is mounted"
	case d != nil && d.csi > 0 && n.volumes[d.csi]:
		return "its volume is staged"
	case p.restored:
		return "an operator has restored it"
	case !slices.ContainsFunc(n.pods, func(q *pod) bool { return (q.ready || q.exited) && n.dirs[q.uid] != nil }):
		return "the runtime lists no pod of this node"
	case p.held:
		return "the kubelet has a volume of it"
	case p.returned > 1:
		return "its hold is long"
	case d != nil && n.kubelet.level < 5 && n.hidden(p):
		return "the kubelet reports another one"
	}
	return ""
}

// hidden reports whether the kubelet reports another pod first, which is kept.
func (n *node) hidden(p *pod) bool {
	return slices.ContainsFunc(n.pods, func(q *pod) bool {
		d := n.dirs[q.uid]
		return q.uid < p.uid && d != nil && !q.admitted && !q.held && d.stuck() && !d.mountedByKubelet() && n.keeps(q) != ""
	})
}

// settled reports whether nothing is left to wait for but retention and an operator.
func (n *node) settled() bool {
	for _, p := range n.pods {
		if n.dirs[p.uid] != nil && !p.alive() || p.wanted && !p.runs {
			return false
		}
	}
	for _, e := range n.program.store.Entries() {
		if e.Phase == judge.Quarantined || e.Phase == judge.Moving || e.Phase == judge.Restoring || e.Phase == judge.Cleaning || e.Phase == judge.Purging {
			return false
		}
	}
	return true
}

// ends judges what is left once nothing has happened for long.
func (o *oracle) ends(n *node) {
	_ = n.program.store.Refresh()
	entries := n.program.store.Entries()
	for _, p := range n.pods {
		if d := n.dirs[p.uid]; d != nil && n.keeps(p) == "" {
			o.fail(n, "%s is dead, nothing keeps it, and its directory is still there: %v", p, n.reasons(p))
		}
		lost := slices.ContainsFunc(slices.Collect(maps.Values(n.quarantine)), func(d *dir) bool { return d.id.Ino == p.home })
		if p.wanted && !p.runs && lost {
			for _, e := range entries {
				if e.UID == p.uid && (e.Phase == judge.InConflict || e.ConfirmedAt != (judge.Instant{})) {
					lost = false // an operator decides
				}
			}
			if lost {
				o.fail(n, "%s is wanted and cannot start: its volumes are in quarantine", p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		p, e := n.byUID[n.quarantine[name].uid], entries[name]
		switch e.Phase {
		case judge.Retained, judge.InConflict:
		case "":
			o.fail(n, "%s is in quarantine, and the ledger does not have it", p)
		default:
			if n.keeps(p) == "" {
				o.fail(n, "%s is in quarantine, and still %s", p, e.Phase)
			}
		}
	}
	for name, e := range entries {
		// A command that could not write its result has printed that. The next pass finds what it did: in an hour.
		if n.quarantine[name] == nil && !n.settings.Observe && e.Phase != judge.Restoring && e.Phase != judge.Purging {
			o.fail(n, "the ledger has %s as %s, and it is not in quarantine", name, e.Phase)
		}
	}
}

// reasons returns why the program keeps a pod.
func (n *node) reasons(p *pod) []judge.Reason {
	pod, _ := n.program.status.Pod(p.uid)
	return pod.Reasons
}

// idles judges the time after that: what is ephemeral goes in the end, and for the rest nothing is written, and there is a
// scan an hour, or every five minutes if the kubelet reports a pod that is kept.
func (o *oracle) idles(n *node) {
	if o.failed != "" {
		return
	}
	n.idle = true
	// What failed last is tried again in an hour; an hour of silence about a pod that an operator restored may begin and end with
	// a scan an hour late; after a boot the retention is counted by the wall clock.
	n.run(n.now + max(n.settings.Retention, 3*time.Hour) + n.skewed + 10*time.Minute)
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		if d := n.quarantine[name]; d.has[content.Ephemeral] > 0 && n.program.store.Entries()[name].Phase == judge.Retained && n.keeps(n.byUID[d.uid]) == "" {
			o.fail(n, "emptyDirs of %s are still in quarantine", n.byUID[d.uid])
		}
	}
	for name, e := range n.program.store.Entries() {
		if n.quarantine[name] == nil && !n.settings.Observe {
			o.fail(n, "for hours the ledger has had %s as %s, and it is not in quarantine", name, e.Phase)
		}
	}
	for seq, e := range o.events {
		if _, ok := o.sent[seq]; !ok {
			o.fail(n, "the journal has not got event %d, %s", seq, e.Kind)
		}
	}
	passes, now := n.program.passes, n.now
	n.run(n.now + 3*time.Hour)
	most := 4
	if slices.ContainsFunc(n.pods, func(p *pod) bool { return n.now-o.report[p.uid].at < 3*time.Hour }) {
		most = 40
	}
	if got := n.program.passes - passes; got > most {
		o.fail(n, "%d scans in three hours in which nothing happens", got)
	}
	if n.program.changed > now {
		o.fail(n, "something is written while nothing happens")
	}
}
