package sim

import (
	"maps"
	"slices"
	"time"
)

// trouble is a fault that lasts for a time, and its words in the story.
type trouble struct {
	words string
	set   func(n *node, a act, on bool)
}

// troubles are the kinds of what lasts.
var troubles = map[kind]trouble{
	runtimeRestarts: {"the runtime ends", func(n *node, _ act, on bool) { n.runtime.up = !on }},
	runtimeEmptied:  {"the runtime's root is emptied", func(n *node, _ act, on bool) { n.runtime.emptied = on }},
	networkFails:    {"the pods' network is not ready", func(n *node, _ act, on bool) { n.runtime.network = !on }},
	mountsHidden:    {"a process hides its mounts", func(n *node, _ act, on bool) { n.runtime.hidden = on }},
	readsFail:       {"some reads fail", func(n *node, a act, on bool) { n.faults.reads = oneOf(1+a.arg%8, on) }},
	sourceFails:     {"one source cannot be read", func(n *node, a act, on bool) { n.faults.dark = source(oneOf(1+a.arg%int(numSources-1), on)) }},
	gateShuts:       {"the program may not change the node", func(n *node, a act, on bool) { n.faults.shut = oneOf(1+a.arg%4, on) }},
	readsSlow:       {"reads are slow", func(n *node, _ act, on bool) { n.faults.slow = n.pace(on) }},
	writesFail:      {"some changes are refused", func(n *node, a act, on bool) { n.faults.writes = oneOf(1+a.arg%4, on) }},
	ioFails:         {"some writes fail", func(n *node, a act, on bool) { n.faults.io = oneOf(1+a.arg%8, on) }},
	diskFull:        {"the disk is full", func(n *node, _ act, on bool) { n.faults.full, n.faults.wasFull, n.state.free = on, n.now, 0 }},
	serverAway: {"the API server is away", func(n *node, _ act, on bool) {
		n.faults.away = on
		n.noticeAll()
	}},
	linesLate: {"lines come late", func(n *node, _ act, on bool) { n.log.late = 30 * time.Second * time.Duration(oneOf(1, on)) }},
	linesLost: {"lines are lost", func(n *node, _ act, on bool) { n.log.lost = on }},
}

// noticeAll has the kubelet see what it has missed.
func (n *node) noticeAll() {
	for _, p := range n.pods {
		n.kubelet.notice(p)
	}
}

// oneOf is how many times are to one in which something fails; 0 is never.
func oneOf(times int, on bool) int {
	if on {
		return times
	}
	return 0
}

// pace is how long a read may take.
func (n *node) pace(slow bool) time.Duration {
	switch {
	case slow:
		return 2 * time.Second
	case n.quick:
		return 5 * time.Millisecond
	}
	return 700 * time.Millisecond
}

// during has a trouble last.
func (n *node) during(a act, t trouble) {
	t.set(n, a, true)
	n.tell("%s", t.words)
	n.faults.last = n.now
	n.after(a.lasts, func() {
		if n.now < n.calm {
			t.set(n, a, false)
			n.faults.last = n.now
		}
	})
}

// act has one thing happen.
func (n *node) act(a act) {
	if n.now > n.calm {
		return
	}
	if a.skip > 0 && a.step != atOnce {
		a.skip--
		n.after(0, func() { n.waiting = append(n.waiting, a) })
		return
	}
	if a.step != atOnce {
		n.tell("(%s)", a.step)
	}
	p := n.pods[max(a.pod, 0)]
	if t, ok := troubles[a.kind]; ok {
		n.during(a, t)
		return
	}
	switch a.kind { // the others are in troubles, or happen in a directory
	case podStarts:
		n.after(a.lasts, func() { n.want(p) })
	case podEnds:
		n.unwant(p)
	case podCompletes:
		n.complete(p)
	case kubeletRestarts:
		n.kubelet.restart(a.lasts, a.arg%3 == 2)
	case nodeReboots:
		n.tell("the machine reboots")
		n.reboot(a)
	case powerLost:
		n.losePower(a)
	case programKilled:
		n.observes = a.arg%4 == 0
		n.kill(a.lasts)
	case linesForged:
		n.tell("lines about %s are forged", p)
		for i := range 1 + a.arg%4 {
			n.log.forge(p.uid, a.arg/4+i)
		}
	case sandboxesEvicted:
		n.tell("sandboxes that have stopped are removed")
		for _, q := range n.pods {
			n.forgetSandboxes(q)
		}
	case clockSet:
		step := time.Duration(a.arg-32) * 3 * time.Minute
		n.steps, n.skew, n.back = n.steps+1, n.skew+step, n.back-min(0, step)
		n.faults.last = n.now
		n.tell("the wall clock is set by %s", step)
	case operatorRestores, operatorPurges, operatorResumes, operatorForgets, operatorScans:
		n.order(a.kind, p)
	default:
		if d := n.anyDir(p); d != nil {
			n.inside(a, p, d)
		}
	}
}

// anyDir returns the directory of a pod, or what lies of it in quarantine.
func (n *node) anyDir(p *pod) *dir {
	if d := n.dirs[p.uid]; d != nil {
		return d
	}
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		if d := n.quarantine[name]; d.uid == p.uid {
			return d
		}
	}
	return nil
}

// inside is what others do in a pod's directory.
func (n *node) inside(a act, p *pod, d *dir) {
	switch {
	case a.kind == mountAppears:
		n.tell("an agent mounts something in the directory of %s", p)
		d.mounts = append(d.mounts, mount{agent: a.arg%2 == 0, data: true, since: n.now})
		d.touched = d.touched || d.entry != ""
	case a.kind == mountGoes && !p.alive():
		n.tell("what is mounted in %s goes", p)
		d.mounts = nil
	case a.kind == fileOpened:
		n.during(a, trouble{"a process opens a file of " + p.String(), func(_ *node, _ act, on bool) {
			if on {
				d.inUse++
			} else {
				d.inUse = max(0, d.inUse-1)
			}
		}})
	}
}

// want has a pod be wanted on this node: its manifest is there, or the API server binds it. A pod of the API server's never comes back.
func (n *node) want(p *pod) {
	if p.wanted || p.lives > 0 && !p.static {
		return
	}
	p.wanted, p.done, p.shown, p.since, p.lives = true, false, !p.stated, n.now, p.lives+1
	n.tell("%s is wanted (life %d)", p, p.lives)
	n.after(n.noticed(p), func() { n.kubelet.notice(p) })
}

// unwant has it be wanted no more.
func (n *node) unwant(p *pod) {
	if !p.wanted {
		return
	}
	p.wanted = false
	n.tell("%s is no longer wanted", p)
	n.after(n.noticed(p), func() { n.kubelet.notice(p) })
}

// noticed is how long the kubelet takes to see it: a manifest mostly at once, by inotify, and at the latest after 20 s.
func (n *node) noticed(p *pod) time.Duration {
	if p.static && n.oneIn(4) {
		return n.between(0, 20*time.Second)
	}
	return n.between(0, time.Second)
}

// complete ends the containers of a pod by themselves. It stays in the kubelet's list.
func (n *node) complete(p *pod) {
	if !p.wanted || p.static || !p.runs() {
		return
	}
	n.tell("%s has completed", p)
	p.done = true
	p.stop()
	n.kubelet.later(n.between(time.Second, 6*time.Second), func() { // SyncTerminatedPod
		if p.done {
			n.kubelet.unmount(p)
			p.cgroup = false
		}
	})
}

// losePower switches the machine off at once: of the changes that were not synced, the last are lost.
func (n *node) losePower(a act) {
	n.tell("the power fails")
	if at := n.dice.IntN(len(n.unsynced) + 1); at < len(n.unsynced) {
		n.tell("the last %d changes of directories are lost", len(n.unsynced)-at)
		n.tree = n.unsynced[at]
	}
	n.unsynced = nil
	n.state.lose()
	n.reboot(a)
}

// reboot switches the machine off and on. Mounts, cgroups and processes are gone, sandboxes have stopped, directories stay. The pods' network
// may not be ready until the pod that sets it up has started. CRI-O then has no sandbox any more.
func (n *node) reboot(a act) {
	n.kubelet.stop()
	n.kubelet.alone = false
	bare := a.arg%2 == 1
	if bare {
		a.lasts = max(a.lasts, 10*time.Minute)
		n.during(a, troubles[networkFails])
	}
	up := n.program.up
	for _, p := range n.pods {
		p.stop()
		if p.cgroup, p.home, p.stage = false, 0, unmade; bare {
			p.sandboxes = nil
		}
	}
	for _, d := range n.dirs {
		d.mounts, d.inUse = nil, 0
	}
	for _, d := range n.quarantine {
		d.mounts, d.inUse = nil, 0
	}
	clear(n.runtime.staged)
	n.boots++
	n.booted = n.now
	n.faults.last = n.now
	n.after(n.between(time.Second, 20*time.Second), n.kubelet.start)
	if up {
		n.kill(n.between(time.Second, 30*time.Second))
	}
}
