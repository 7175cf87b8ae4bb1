package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// kubelet is the node's kubelet, of one of four releases that differ in what they list.
type kubelet struct {
	*node
	version int // 24, 28, 33 or 37, of 1.N
	up      bool
	run     int // which one it is: what an earlier one was about to do is not done
	id      policy.KubeletID
	ready   bool // all of its sources have delivered, and it has taken in all of their pods
	alone   bool // it was started without the API server, and wants the static pods only
}

const housekeeping = 2 * time.Second

// later schedules something for this kubelet. It does not happen if the kubelet has ended by then.
func (k *kubelet) later(d time.Duration, do func()) {
	run := k.run
	k.after(d, func() {
		if k.up && k.run == run {
			do()
		}
	})
}

// start starts a kubelet. Static pods come first and the API server's when they come; each is taken in once it is
// admitted, which may take long. Until all are in it lists and cleans up nothing.
func (k *kubelet) start() {
	if k.up {
		return
	}
	k.run++
	k.up, k.ready = true, false
	k.id = policy.KubeletID{PID: 800 + k.run, Start: k.now - k.booted}
	k.tell("kubelet 1.%d starts with PID %d", k.version, k.id.PID)
	var admit func(of []*pod)
	admit = func(of []*pod) {
		for len(of) > 0 && !k.wants(of[0]) {
			of = of[1:]
		}
		if k.faults.away && (len(of) == 0 || !of[0].static) { // it has its static pods and waits for the API server
			k.later(housekeeping, func() { admit(of) })
			return
		}
		if len(of) == 0 {
			k.ready = true
			k.later(housekeeping, k.keepHouse)
			k.later(k.between(0, time.Minute), k.collect)
			k.tell("the kubelet has taken in all of its pods")
			k.noticeAll() // what changed meanwhile
			return
		}
		k.admit(of[0])
		slow := 200 * time.Millisecond
		if k.oneIn(6) {
			slow = 20 * time.Second
		}
		k.later(k.between(time.Millisecond, slow), func() { admit(of[1:]) })
	}
	k.later(k.between(time.Second, 10*time.Second), func() {
		all := slices.Clone(k.pods)
		slices.SortStableFunc(all, func(a, b *pod) int { return rank(a) - rank(b) })
		admit(all)
	})
	for _, p := range k.pods {
		p.deserted = p.deserted || p.wanted && !k.wants(p)
		if d := k.dirs[p.uid]; d != nil && d.leaf > 0 && !k.wants(p) {
			k.reconstruct(p, d)
		}
	}
}

// wants reports whether the sources that the kubelet has want the pod.
func (k *kubelet) wants(p *pod) bool { return p.wanted && (p.static || !k.alone) }

// restart ends the kubelet and starts it again after d. If its configuration is broken, it has no API server until that
// is mended, and ends what the server wants.
func (k *kubelet) restart(d time.Duration, broken bool) {
	k.stop()
	if k.alone = broken; !broken {
		k.after(d, k.start)
		return
	}
	k.tell("it is configured without an API server")
	k.start()
	k.later(d, func() {
		k.stop()
		k.alone = false
		k.start()
	})
}

func rank(p *pod) int {
	if p.static {
		return 0
	}
	return 1
}

// stop kills the kubelet. Containers go on.
func (k *kubelet) stop() {
	if !k.up {
		return
	}
	k.tell("the kubelet ends")
	k.up = false
	for _, p := range k.pods {
		p.admitted, p.ending, p.held = false, false, false
		if !p.runs() { // the next one sets up its volumes anew
			p.home, p.stage = 0, unmade
		}
	}
}

// notice has the kubelet see whether a pod is wanted.
func (k *kubelet) notice(p *pod) {
	switch {
	case !k.up || !k.ready || p.ending || !p.static && k.faults.away:
	case k.wants(p) && !p.admitted:
		k.admit(p)
	case !k.wants(p) && p.admitted:
		k.end(p)
	}
}

// admit takes a pod in.
func (k *kubelet) admit(p *pod) {
	if p.admitted {
		return
	}
	p.admitted, p.ending = true, false
	if p.runs() {
		p.stage = hasContainers
	}
	k.sync(p)
	k.resync(p)
}

// sync takes a pod one step further, and goes on until its containers run.
func (k *kubelet) sync(p *pod) {
	soon := k.between(10*time.Millisecond, 1500*time.Millisecond)
	if k.brisk {
		soon /= 8
	}
	k.later(soon, func() {
		if !p.admitted || p.ending || p.stage == hasContainers || p.done {
			return
		}
		if k.step(p) {
			p.stage++
			k.sync(p)
			return
		}
		k.later(k.between(2*time.Second, 15*time.Second), func() { k.sync(p) })
	})
}

// step makes what comes next, and reports whether it could.
func (k *kubelet) step(p *pod) bool {
	d := k.dirs[p.uid]
	switch p.stage {
	case unmade:
		if !k.runtime.network && !p.static {
			return false // syncPod returns before it makes anything; static pods use the host's network
		}
		p.cgroup = true
	case hasCgroup:
		k.makeDir(p)
	case hasDir:
		if p.waits {
			return false
		}
		if d == nil {
			d = k.makeDir(p)
		}
		k.setUp(p, d)
	case hasVolumes:
		if !k.runtime.up {
			return false
		}
		p.sandboxes = append(p.sandboxes, sandbox{id: k.add(p), created: k.wall(), ready: true})
		k.tell("the runtime makes a sandbox of %s", p)
	case hasSandbox:
		if d == nil || d.id.Ino != p.home || !k.runtime.up {
			k.tell("CreateContainerConfigError of %s: its emptyDir is not there", p)
			return false // a volume is not set up twice
		}
		last := &p.sandboxes[len(p.sandboxes)-1]
		last.container, last.runs, last.ready = true, true, true
		d.ran, d.changed = true, k.wall()
		d.has[contents.ClassEphemeral] = 3
		k.tell("the container of %s runs", p)
	case hasContainers:
	}
	return true
}

// makeDir makes what a pod has before it has any volume.
func (k *kubelet) makeDir(p *pod) *dir {
	d := k.dirs[p.uid]
	if d == nil {
		d = k.newDir(p.uid)
		k.dirs[p.uid] = d
		k.tell("the kubelet makes the directory of %s", p)
	}
	return d
}

// setUp sets up the volumes of a pod in the directory that it has now, and in no other later.
func (k *kubelet) setUp(p *pod, d *dir) {
	d.volumes, d.changed, p.home = true, k.wall(), d.id.Ino
	if p.secret {
		d.mounts = append(d.mounts, mount{since: k.now})
	}
	if p.volume > 0 {
		d.mounts, d.csi = append(d.mounts, mount{data: true, since: k.now}), p.volume
		d.has[contents.ClassSkeleton] = 1
		k.runtime.staged[p.volume] = true
	}
	k.tell("the kubelet sets up the volumes of %s in the directory of inode %d", p, d.id.Ino)
}

// resync syncs a pod again and again: a directory that is missing is made.
func (k *kubelet) resync(p *pod) {
	k.later(k.between(25*time.Second, 90*time.Second), func() {
		if !p.admitted {
			return
		}
		if !p.ending && p.stage >= hasDir && !p.done {
			k.makeDir(p)
		}
		k.resync(p)
	})
}

// end ends a pod: its containers, then its volumes, then its cgroup. Then the kubelet forgets it.
func (k *kubelet) end(p *pod) {
	p.ending = true
	k.tell("the kubelet begins to end %s", p)
	k.later(k.between(100*time.Millisecond, 30*time.Second), func() {
		p.stop()
		k.later(k.between(100*time.Millisecond, 3*time.Second), func() {
			k.tearDown(p)
			k.later(k.between(100*time.Millisecond, 3*time.Second), func() {
				if d := k.dirs[p.uid]; d == nil || !d.mountedHere() {
					p.cgroup = false
				}
				p.admitted, p.ending, p.stage, p.home = false, false, unmade, 0
				k.tell("the kubelet has forgotten %s, which leaves %s", p, p.leaves)
				k.notice(p)
			})
		})
	})
}

// stop ends all containers of a pod.
func (p *pod) stop() {
	for i := range p.sandboxes {
		p.sandboxes[i].ready, p.sandboxes[i].runs = false, false
	}
}

// unmount unmounts a pod's volumes, except for those that it cannot, and returns the directory.
func (k *kubelet) unmount(p *pod) *dir {
	d := k.dirs[p.uid]
	if d == nil {
		return nil
	}
	shared := slices.ContainsFunc(k.pods, func(q *pod) bool { return q != p && q.volume == p.volume && q.home > 0 })
	if p.volume > 0 && p.leaves != leavesMount && !shared {
		k.runtime.staged[p.volume] = false // it was the last one
	}
	kept := d.mounts[:0:0]
	for i, m := range d.mounts {
		if m.agent || p.leaves == leavesMount && i == 0 || p.leaves == leavesAll && k.oneIn(8) {
			kept = append(kept, m)
		}
	}
	d.mounts = kept
	return d
}

// tearDown removes what the kubelet has made, and leaves what it cannot remove.
func (k *kubelet) tearDown(p *pod) {
	d := k.unmount(p)
	if d == nil {
		return
	}
	d.changed = k.wall()
	if p.leaves == leavesAll {
		d.has[contents.ClassProjected] = 2
		d.has[contents.ClassData] += k.dice.IntN(2)
		return
	}
	d.has[contents.ClassEphemeral], d.has[contents.ClassSkeleton] = 0, 0
	switch p.leaves {
	case leavesData:
		d.has[contents.ClassData] += 2
	case leavesVolData:
		d.has[contents.ClassSkeleton] = 1
	case leavesLeaf:
		d.leaf += 2
	case leavesNothing, leavesMount, leavesAll, numLeftovers:
	}
	if d.has[contents.ClassSkeleton] == 0 {
		d.csi = 0
	}
}

// mountedHere reports whether something is mounted there in the kubelet's namespace.
func (d *dir) mountedHere() bool {
	return slices.ContainsFunc(d.mounts, func(m mount) bool { return !m.agent })
}

// keepHouse is HandlePodCleanups, every 2 s: it kills pods that are in no source, removes their cgroups, and removes what it can
// of each directory that belongs to no pod. Of those that it cannot remove it logs the first in sorted order. It logs nothing
// about a directory with a mount.
func (k *kubelet) keepHouse() {
	k.later(housekeeping, k.keepHouse)
	var first *pod
	for _, p := range k.pods {
		if p.admitted {
			continue
		}
		d := k.dirs[p.uid]
		if slices.ContainsFunc(p.sandboxes, func(s sandbox) bool { return s.ready || s.runs }) {
			k.later(k.between(time.Second, 4*time.Second), func() {
				if !p.admitted && !k.wants(p) {
					p.stop()
					p.home, p.stage = 0, unmade
				}
			})
			continue
		}
		if p.cgroup && (d == nil || !d.mountedHere()) {
			p.cgroup = false
			continue
		}
		switch {
		case p.cgroup, d == nil, p.held, d.mountedHere():
		case !d.stuck():
			delete(k.dirs, p.uid)
			k.tell("the kubelet removes the directory of %s", p)
		case first == nil || strings.Compare(string(p.uid), string(first.uid)) < 0:
			first = p
		}
	}
	if first != nil {
		k.log.write(parsers.Sighting{UID: first.uid, Report: parsers.ReportRmdirNotEmpty, Kind: parsers.KindRemoval, Count: parsers.NoCount})
	}
}

// collect is the garbage collection of each minute: sandboxes that have stopped of pods that are gone, or that have a
// newer one.
func (k *kubelet) collect() {
	k.later(time.Minute, k.collect)
	if !k.ready || !k.runtime.up {
		return
	}
	for _, p := range k.pods {
		if p.admitted {
			continue
		}
		k.forgetSandboxes(p)
	}
}

// forgetSandboxes removes those that have stopped.
func (n *node) forgetSandboxes(p *pod) {
	p.sandboxes = slices.DeleteFunc(p.sandboxes, func(s sandbox) bool {
		if s.ready || s.runs {
			return false
		}
		n.del(s.id)
		return true
	})
}

// reconstruct is what a kubelet does at its start with a volume's directory of a dead pod: it adopts it as a volume of its own and
// tries for ever to remove it, at intervals up to two minutes; or it tries once, and reports the pod as an orphan from then on.
func (k *kubelet) reconstruct(p *pod, d *dir) {
	p.held, p.tries = true, 0
	var try func()
	try = func() {
		if k.wants(p) || k.dirs[p.uid] != d {
			p.held = false
			return
		}
		if d.leaf == 0 {
			p.held = false
			k.tell("the kubelet removes the volume of %s", p)
			return
		}
		line := parsers.Sighting{UID: p.uid, Report: parsers.ReportTeardown, Count: parsers.NoCount, Volume: "nfs/share", Leaf: theLeaf, Path: theLeaf}
		if p.index%4 == 1 {
			line.Leaf = "" // a line without the reason that the directory is not empty
		}
		k.log.write(line)
		if p.tries++; p.index%2 == 0 && p.tries > 1 {
			p.held = false
			return
		}
		k.later(min(500*time.Millisecond<<min(p.tries, 10), 122*time.Second), try)
	}
	k.later(k.between(5*time.Second, 20*time.Second), try)
}

// runtime is the container runtime, and the volumes that are staged on the node.
type runtime struct {
	up      bool
	emptied bool // its root was emptied: it lists nothing, and what ran still runs
	network bool
	staged  map[int]bool
	hidden  bool // a process hides what is mounted in its namespace
}
