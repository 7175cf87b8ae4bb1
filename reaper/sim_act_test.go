package reaper_test

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// reach carries out the acts that wait for this step of the program.
func (n *node) reach(s step, uid parsers.PodUID) {
	for i := 0; i < len(n.waiting); i++ {
		a := n.waiting[i]
		if a.step != s || uid != "" && n.pods[a.pod].uid != uid {
			continue
		}
		if a.skip > 0 {
			n.waiting[i].skip--
			continue
		}
		n.waiting = append(n.waiting[:i], n.waiting[i+1:]...)
		i--
		n.act(a)
	}
}

// act has one thing happen.
func (n *node) act(a act) {
	if n.now > n.calm {
		return
	}
	p := n.pods[a.pod]
	if a.kind >= runtimeHangs {
		n.during(a)
		return
	}
	switch a.kind {
	case podStarts:
		n.after(a.lasts, func() { n.want(p, true) })
	case podEnds:
		n.want(p, false)
	case kubeletRestarts:
		n.kubelet.end()
		n.after(a.lasts, n.kubelet.begin)
	case upgraded: // the old one still runs for a while
		n.kubelet.end()
		n.kubelet.begin()
		n.kubelet.two = true
		n.kubelet.later(a.lasts, func() { n.kubelet.two = false })
	case nodeBoots, powerFails:
		if a.step != stepMoved {
			n.boot(a)
			return
		}
		n.after(a.lasts, func() {
			if n.now <= n.calm {
				n.boot(a)
			}
		})
	case programKilled:
		n.kill(max(a.lasts, time.Second))
	case programStopped:
		n.stop(max(a.lasts, time.Second))
	case linesForged:
		n.tell("a line about %s is forged (%d)", p, a.arg%8)
		n.log.forge(p.uid, a.arg)
	case linesQuoted:
		n.tell("the kubelet quotes a report of %s", p)
		n.log.quote(p.uid)
	case mountAppears:
		if d := n.dirOf(p); d != nil {
			n.tell("an agent mounts something in the directory of %s", p)
			d.mounts = append(d.mounts, mount{n.now, false})
		}
	case mountText:
		n.tell("a mount of a tenant has the UID of %s", p)
		p.texts++
		n.after(a.lasts, func() { p.texts-- })
	case mountGoes:
		if d := n.dirOf(p); d != nil && !p.alive() {
			n.tell("what is mounted in the directory of %s goes", p)
			d.mounts = nil
		}
	case clockSet:
		by := time.Duration(a.arg-32) * 3 * time.Minute
		n.skew, n.skewed, n.trouble = n.skew+by, n.skewed+by.Abs(), n.now
		n.oracle.clock = n.now
		n.tell("the wall clock is set by %s", time.Duration(a.arg-32)*3*time.Minute)
	case verbose:
		n.kubelet.level = 2 + a.arg%4
	default:
		n.order(a.kind, p)
	}
}

// during has a trouble last.
func (n *node) during(a act) {
	n.tell("trouble %d begins", a.kind)
	if n.faults[a.kind]++; a.kind == diskFull {
		n.memory.free = 0
	}
	n.trouble = n.now
	boots := n.calm
	n.after(a.lasts, func() {
		if n.now < boots {
			n.faults[a.kind]--
			n.trouble = n.now
			n.tell("trouble %d ends", a.kind)
		}
	})
}

// want binds a pod to this node, or ends that. A static pod's manifest is seen at once mostly, and at the latest after 20 s.
func (n *node) want(p *pod, wanted bool) {
	if p.wanted == wanted || n.now > n.calm {
		return
	}
	if p.wanted = wanted; wanted {
		p.lives++
	}
	n.tell("%s is wanted: %t", p, wanted)
	wait := n.between(0, time.Second)
	if n.oneIn(4) {
		wait = n.between(0, 20*time.Second)
	}
	n.after(wait, func() { n.kubelet.notice(p, false) })
}

// boot switches the machine off and on. Mounts, cgroups and processes are gone, directories stay. Without power what was not
// synced is lost.
func (n *node) boot(a act) {
	n.kubelet.end()
	up := n.program.up
	if n.tell("the machine boots"); a.kind == powerFails {
		n.tell("without warning")
		if at := n.dice.IntN(len(n.unsynced) + 1); at < len(n.unsynced) {
			n.tell("the last %d changes of directories are lost", len(n.unsynced)-at)
			n.tree = n.unsynced[at]
		}
		n.memory.lose()
	}
	n.unsynced = nil
	for _, p := range n.pods {
		p.stop()
		p.cgroup, p.began, p.home, p.stage, p.publishing, p.held, p.texts = false, 0, 0, unmade, 0, false, 0
		p.exited = p.exited && a.arg%2 == 0
	}
	for _, d := range n.dirs {
		d.mounts = nil
	}
	for _, d := range n.quarantine {
		d.mounts = nil
	}
	clear(n.volumes)
	n.boots++
	n.booted, n.trouble = n.now, n.now
	if a.arg%3 == 0 { // a machine without a battery clock
		n.skew -= time.Hour
		n.after(n.between(0, time.Minute), func() { n.skew += time.Hour })
		n.oracle.clock = n.now + time.Minute
	}
	n.after(n.between(time.Second, 20*time.Second), n.kubelet.begin)
	if up {
		n.kill(n.between(time.Second, 30*time.Second))
	}
}
