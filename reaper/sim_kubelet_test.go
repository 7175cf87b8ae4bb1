package reaper_test

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// kubelet is the node's kubelet, of a release that differs from the others in what it shows.
type kubelet struct {
	*node
	up    bool
	run   int
	pid   int           // small: in a container of its own a kubelet gets the same PID again
	start time.Duration // on the clock of the boot
	ready bool          // all of its sources have delivered
	two   bool          // the one before still runs
	level int           // -v
}

// later schedules something for this run of the kubelet.
func (k *kubelet) later(d time.Duration, do func()) {
	run := k.run
	k.after(d, func() {
		if k.up && k.run == run {
			do()
		}
	})
}

// begin starts a kubelet. It takes in its pods one after the other, and cleans up nothing before that.
func (k *kubelet) begin() {
	if k.up {
		return
	}
	k.run++
	k.up, k.ready, k.pid, k.start, k.level = true, false, 7+k.run%2*k.dice.IntN(2), k.now-k.booted, k.verbosity
	k.tell("kubelet 1.%d starts with PID %d", k.version, k.pid)
	wait := k.between(time.Second, 10*time.Second)
	for _, p := range k.pods {
		if p.wanted {
			wait += k.between(time.Millisecond, 200*time.Millisecond)
			k.later(wait, func() { k.notice(p, true) })
		}
	}
	k.later(wait+time.Second, func() {
		k.ready = true
		for _, p := range k.pods {
			k.notice(p, false)
		}
		k.later(housekeeping, k.keepHouse)
		k.later(k.between(0, time.Minute), k.collect)
	})
}

// end kills the kubelet. Containers go on.
func (k *kubelet) end() {
	if !k.up {
		return
	}
	k.tell("the kubelet ends")
	k.up, k.two = false, false
	for _, p := range k.pods {
		p.admitted, p.ending = false, false
		if p.held = p.held && p.index%2 == 0; !p.runs { // some volumes are reconstructed
			p.home, p.stage = 0, unmade
		}
	}
}

// notice has the kubelet see whether a pod is wanted.
func (k *kubelet) notice(p *pod, starting bool) {
	switch {
	case !k.up || !k.ready && !starting || p.ending:
	case p.wanted && !p.admitted:
		p.admitted, p.held = true, false
		if p.runs {
			p.stage = hasContainer
		}
		k.sync(p)
		k.resync(p)
	case !p.wanted && p.admitted:
		k.finish(p)
	}
}

// lists reports whether the kubelet's PodsAPI has the pod.
func (k *kubelet) lists(p *pod) bool { return k.up && k.version >= 37 && p.admitted && !p.ending }

// sync takes a pod one step further, until its container runs: syncPod makes its cgroup, then its directory, then its
// volumes, then its sandbox.
func (k *kubelet) sync(p *pod) {
	k.later(k.between(10*time.Millisecond, 800*time.Millisecond), func() { k.step(p) })
}

func (k *kubelet) step(p *pod) {
	if !p.admitted || p.ending {
		return
	}
	next := func() {
		p.stage++
		k.sync(p)
	}
	switch p.stage {
	case unmade:
		if p.cgroup = true; p.began == 0 {
			p.began = k.now
		}
		k.tell("the kubelet makes the cgroup of %s", p)
		next()
	case hasCgroup:
		k.makeDir(p)
		next()
	case hasDir:
		k.publish(p, next)
	case hasVolumes:
		k.later(p.sandbox, func() {
			if p.admitted && !p.ending && p.stage == hasVolumes && k.faults[runtimeHangs] == 0 {
				p.ready, p.exited = true, false
				k.tell("the runtime has a sandbox of %s", p)
				next()
			} else {
				k.sync(p)
			}
		})
	case hasSandbox:
		if d := k.dirs[p.uid]; d == nil || d.id.Ino != p.home {
			k.tell("%s cannot start: its emptyDir is not there", p)
			k.later(10*time.Second, func() { k.step(p) })
			return
		}
		p.runs = true
		k.tell("the container of %s runs", p)
		next()
	case hasContainer:
	}
}

// makeDir makes what a pod has before any volume, in what is there.
func (k *kubelet) makeDir(p *pod) *dir {
	d := k.dirs[p.uid]
	if d == nil {
		d = k.newDir(p.uid)
		k.dirs[p.uid] = d
		k.touch(d, false)
		k.tell("the kubelet makes the directory of %s", p)
	}
	return d
}

// publish sets up the volumes of a pod, which may take long, and goes on when the pod is deleted meanwhile.
func (k *kubelet) publish(p *pod, done func()) {
	if p.publishing != 0 { // the kubelet has ended, and the driver goes on
		k.later(time.Second, func() { k.publish(p, done) })
		return
	}
	d := k.makeDir(p)
	d.volumes = true
	d.has[content.Ephemeral] += 3
	k.touch(d, true)
	if p.secret {
		d.mounts = append(d.mounts, mount{k.now, true})
	}
	if p.volume == 0 {
		p.home = d.id.Ino
		done()
		return
	}
	d.has[content.Skeleton], d.csi = 1, p.volume
	k.node.volumes[p.volume] = true
	p.publishing = d.id.Ino
	k.tell("NodePublish of %s begins", p)
	run := k.run
	boots := k.boots
	k.after(p.publish, func() {
		if k.boots != boots || p.publishing != d.id.Ino {
			return
		}
		p.publishing = 0
		if k.dirs[p.uid] != d {
			k.oracle.fail(k.node, "a NodePublish ended in a directory that had been moved: %s", p)
			return
		}
		k.touch(d, true)
		d.mounts = append(d.mounts, mount{k.now, true})
		k.tell("NodePublish of %s ends", p)
		if k.run != run || !p.admitted || p.ending || p.stage != hasDir { // the volume manager unmounts it
			k.after(time.Second, func() {
				if !p.admitted {
					d.mounts = slices.DeleteFunc(d.mounts, func(m mount) bool { return m.own })
					k.node.volumes[p.volume] = false
					k.touch(d, true)
				}
			})
			if k.run != run || !p.admitted || p.ending {
				return
			}
		}
		p.home = d.id.Ino
		done()
	})
}

// resync makes a missing directory again.
func (k *kubelet) resync(p *pod) {
	k.later(k.between(25*time.Second, 90*time.Second), func() {
		if p.admitted {
			if !p.ending && p.stage >= hasDir {
				k.makeDir(p)
			}
			k.resync(p)
		}
	})
}

// finish ends a pod: its container, its volumes, its cgroup. Then the kubelet forgets it.
func (k *kubelet) finish(p *pod) {
	p.ending = true
	k.later(k.between(100*time.Millisecond, 20*time.Second), func() {
		p.stop()
		k.later(k.between(100*time.Millisecond, 3*time.Second), func() {
			k.tearDown(p)
			k.later(k.between(100*time.Millisecond, 3*time.Second), func() {
				if d := k.dirs[p.uid]; d == nil || !d.mountedByKubelet() {
					p.cgroup = false
				}
				p.admitted, p.ending, p.stage, p.home, p.began = false, false, unmade, 0, 0
				k.tell("the kubelet has forgotten %s", p)
				k.notice(p, false)
			})
		})
	})
}

func (p *pod) stop() {
	p.exited = p.exited || p.ready
	p.ready, p.runs = false, false
}

// tearDown removes what the kubelet has made, and leaves what it cannot remove.
func (k *kubelet) tearDown(p *pod) {
	d := k.dirs[p.uid]
	if d == nil {
		return
	}
	if k.touch(d, true); p.publishing == d.id.Ino {
		return // the volume manager does not know this volume yet
	}
	shared := slices.ContainsFunc(k.pods, func(q *pod) bool { return q != p && q.volume == p.volume && q.home > 0 })
	keep := p.leaves == leavesMount || p.leaves == leavesHeld
	if stays := p.index == 2; p.volume > 0 && !keep && !shared && !stays { // NodeUnstage of one of them fails for ever
		k.node.volumes[p.volume] = false
	}
	d.mounts = slices.DeleteFunc(d.mounts, func(m mount) bool { return m.own && !keep })
	p.held = p.leaves == leavesHeld
	switch p.leaves {
	case leavesAll, leavesHeld:
		d.has[content.Projected] = 2
		d.has[content.Data] += k.dice.IntN(2)
		return
	case leavesData:
		d.has[content.Data] += 2
	case leavesVolData, leavesMount:
		d.has[content.Projected] = 1
	case leavesNothing, numLeftovers:
		d.has[content.Skeleton] = 0
	}
	d.has[content.Ephemeral] = 0
}

const housekeeping = 2 * time.Second

// keepHouse is HandlePodCleanups: it kills pods that are in no source, removes their cgroups, removes what it can of each
// directory that belongs to no pod, and reports the first of those that it cannot remove.
func (k *kubelet) keepHouse() {
	every := housekeeping
	if k.idle { // to simulate hours
		every = 25 * time.Second
	}
	k.later(every, k.keepHouse)
	var orphans []*pod
	for _, p := range k.pods {
		d := k.dirs[p.uid]
		switch {
		case p.admitted:
		case p.ready || p.runs:
			k.later(k.between(time.Second, 4*time.Second), func() {
				if !p.admitted && !p.wanted {
					p.stop()
					p.home, p.stage = 0, unmade
				}
			})
		case p.cgroup && (d == nil || !d.mountedByKubelet()):
			p.cgroup, p.began = false, 0
		case d == nil || p.cgroup:
		case p.held || d.mountedByKubelet():
			if k.level >= 3 {
				k.log.volumes(p)
			}
		case !d.stuck():
			delete(k.dirs, p.uid)
			k.tell("the kubelet removes the directory of %s", p)
		default:
			orphans = append(orphans, p)
		}
	}
	slices.SortFunc(orphans, func(a, b *pod) int { return strings.Compare(string(a.uid), string(b.uid)) })
	for i, p := range orphans {
		if k.oracle.reports(k.node, p, i == 0 || k.level >= 5); i == 0 {
			k.log.first(p, len(orphans))
		}
		if k.level >= 5 {
			k.log.each(p)
		}
	}
}

// collect removes the sandboxes that have stopped of pods that are gone.
func (k *kubelet) collect() {
	k.later(time.Minute, k.collect)
	for _, p := range k.pods {
		if !p.admitted && k.faults[runtimeHangs] == 0 {
			p.exited = false
		}
	}
}
