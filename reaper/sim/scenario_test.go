package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// step is a moment of the program at which something may happen.
type step uint8

const (
	atOnce      step = iota
	stepRead         // a source has answered, in a look or to a question
	stepIntent       // it is written down that a directory is to be parked
	stepAsk          // the last question is asked: before a rename and again after it, and about mounts before a removal
	stepRename       // a directory is about to be renamed
	stepMoved        // it was
	stepUnlink       // something in quarantine is about to be removed
	stepAppend       // records are about to be written
	stepWrite        // a file of the state directory is half written
	stepSweep        // files of CNI are about to be removed
	stepConfirm      // a look begins by which a parked pod may be confirmed
	numSteps
)

func (s step) String() string {
	return [...]string{
		"", "between two reads", "once a parking was written down", "at the last question", "right before a rename", "right after a rename",
		"before something is removed", "before records are written", "in the middle of a write", "before files of CNI are removed",
		"when a parked pod may be confirmed",
	}[s]
}

// kind is what happens.
type kind uint8

const (
	podStarts kind = iota // the API server binds it, or its manifest comes
	podEnds
	podCompletes
	kubeletRestarts
	runtimeRestarts
	runtimeEmptied
	networkFails
	nodeReboots
	programKilled
	readsFail
	readsSlow
	writesFail
	ioFails
	diskFull
	linesLate
	linesLost
	linesForged
	mountAppears
	mountGoes
	fileOpened
	mountsHidden
	sandboxesEvicted
	logsCleaned
	clockSet
	operatorRestores
	operatorPurges
	operatorResumes
	operatorForgets
	powerLost
	sourceFails
	gateShuts
	operatorScans
	serverAway
	numKinds
)

// act is one thing that happens, at a time or at the first such step of the program after it.
type act struct {
	at    time.Duration
	step  step
	skip  int // so many steps are let pass
	kind  kind
	pod   int // -1 is none
	lasts time.Duration
	arg   int
}

// scenario is all that a seed decides before the run begins.
type scenario struct {
	seed  uint64
	throw uint64 // the dice of the run
	pods  []spec
	acts  []act

	rules                                          policy.Rules
	version                                        int
	byJournal, asksKubelet, asksAPI, asksResources bool
	partial                                        bool // the kubelet's socket lists before all pods are in
	calm                                           time.Duration
	quick                                          bool // the look takes no time to speak of
	brisk                                          bool // the kubelet takes little time to make a pod
}

// newScenario makes a scenario of so many lives.
func newScenario(seed uint64, lives int) scenario {
	chance := rand.New(rand.NewPCG(seed, 0))
	minutes := func(of ...int) time.Duration { return time.Duration(of[chance.IntN(len(of))]) * time.Minute }
	one := func(in int) bool { return chance.IntN(in) == 0 }
	s := scenario{
		seed: seed, version: []int{24, 28, 33, 37}[chance.IntN(4)],
		rules: policy.Rules{
			Hold: minutes(5, 5, 2, 1), HoldReported: minutes(1, 1, 5), Settle: minutes(5, 1), Confirm: minutes(5, 5, 4), Retention: minutes(60, 11, 2), CNIOlderThan: minutes(5, 60),
		},
		byJournal: !one(4), asksKubelet: one(4), asksAPI: one(4), asksResources: one(2), partial: one(4), quick: one(3), brisk: one(2),
	}
	s.rules.NeedAPI = s.asksAPI && one(2)
	if one(8) {
		s.rules.MaxPerLook = 2
	}
	pods := make([]spec, 2+chance.IntN(max(1, lives/2)))
	for i := range pods {
		pods[i] = makePod(i, chance)
	}
	s.calm = 10*time.Minute + time.Duration(chance.IntN([]int{15, 15, 50}[chance.IntN(3)]))*time.Minute
	at := func() time.Duration { return time.Duration(chance.Int64N(int64(s.calm))) }
	if !one(8) { // a pod of a DaemonSet, which is always there
		p := makePod(len(pods), chance)
		p.static, p.stated, p.waits, p.uid = false, false, false, parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-ffffffffffff", chance.Uint32()))
		pods = append(pods, p)
		s.acts = append(s.acts, act{kind: podStarts, pod: len(pods) - 1})
	}
	most := len(pods) - len(s.acts)
	// Each life begins and ends; that of a static pod may begin anew just when the program is about to move its directory.
	for i := range max(lives, most) {
		p := i % most
		if i >= most && !pods[p].static {
			if p = slices.IndexFunc(pods[:most], func(q spec) bool { return q.static }); p < 0 {
				break
			}
		}
		begin := act{kind: podStarts, pod: p}
		if i >= most {
			begin.at = at()
			if !one(3) {
				begin.step, begin.skip, begin.lasts = step(1+chance.IntN(int(stepUnlink))), chance.IntN(1+chance.IntN(12)), time.Duration(chance.Int64N(int64(time.Second)<<chance.IntN(3)))
				if one(5) {
					begin.step = stepConfirm
				}
				if begin.step != stepRead {
					begin.skip = 0
				}
			}
		} else if !one(3) {
			begin.at = at() / 4
		}
		s.acts = append(s.acts, begin)
		end := act{kind: podEnds, pod: p, at: begin.at + time.Duration(chance.Int64N(int64(12*time.Minute)))}
		if one(4) {
			end.at = begin.at + time.Duration(chance.Int64N(int64(20*time.Second)))
		}
		if !one(5) {
			s.acts = append(s.acts, end)
		}
	}
	// A node has troubles of a few kinds only, and of these more than one.
	kinds := make([]kind, 1+chance.IntN(4))
	for i := range kinds {
		if kinds[i] = podCompletes + kind(chance.IntN(int(numKinds-podCompletes))); one(4) {
			kinds[i] = []kind{sourceFails, sourceFails, programKilled, operatorRestores, fileOpened}[chance.IntN(5)]
		}
	}
	for range chance.IntN(10) {
		a := act{at: at(), kind: kinds[chance.IntN(len(kinds))], pod: chance.IntN(most), arg: chance.IntN(64)}
		a.lasts = []time.Duration{time.Second, 10 * time.Second, time.Minute, 6 * time.Minute, 20 * time.Minute}[chance.IntN(5)]
		if one(2) {
			a.step, a.skip = step(1+chance.IntN(int(numSteps)-1)), chance.IntN(6)
		}
		if a.kind == programKilled && one(3) {
			a.step, a.skip = stepSweep, 0
		}
		s.acts = append(s.acts, a)
	}
	if one(20) { // a retention ends while the program only observes
		s.calm, s.rules.Retention = max(s.calm, 35*time.Minute), 11*time.Minute
		s.acts = append(s.acts, act{kind: programKilled, at: 15*time.Minute + at()/4, lasts: time.Second})
	}
	if one(8) {
		s.mishap(chance, pods)
	}
	if lives >= 10 && seed%1000 == 500 {
		s, pods = s.backlog(chance)
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return int(a.at - b.at) })
	s.throw, s.pods = chance.Uint64(), pods
	return s
}

// mishap adds what rarely comes together by chance.
func (s *scenario) mishap(chance *rand.Rand, pods []spec) {
	at := time.Duration(chance.Int64N(int64(s.calm)))
	add := func(after time.Duration, a act) {
		a.at, a.pod = at+after, 0
		s.acts = append(s.acts, a)
	}
	switch chance.IntN(3) {
	case 0: // mounts come, or cannot be read, just when that counts
		what := []kind{mountsHidden, mountAppears, sourceFails, readsFail}[chance.IntN(4)]
		add(0, act{kind: what, step: stepAsk, skip: chance.IntN(6), lasts: 10 * time.Second, arg: int(ofMounts) - 1})
		return
	case 1: // a node that has lost all sandboxes starts while the API server is away, and somebody forges lines
		at /= 4
		s.calm = max(s.calm, 35*time.Minute)
		add(0, act{kind: serverAway, lasts: 20 * time.Minute})
		add(time.Second, act{kind: nodeReboots, arg: 1})
		add(5*time.Minute, act{kind: linesForged, arg: 20 + chance.IntN(4)})
		return
	}
	// A kubelet that starts takes up volumes of dead pods. Its lines are lost, or the program is killed while it clears these.
	for i := range pods {
		pods[i].leaves = leavesLeaf
	}
	add(0, act{kind: kubeletRestarts, lasts: time.Second})
	if chance.IntN(3) == 0 {
		add(0, act{kind: linesLost, lasts: 20 * time.Minute})
		return
	}
	add(0, act{kind: programKilled, step: []step{stepMoved, stepAppend}[chance.IntN(2)], skip: chance.IntN(3), lasts: time.Second, arg: 1})
}

// backlog makes of a scenario one in which nothing happens but that a hundred pods, which all ran, end within a minute.
func (s scenario) backlog(chance *rand.Rand) (scenario, []spec) {
	s.version, s.acts, s.calm, s.rules.MaxPerLook, s.rules.NeedAPI = []int{33, 37}[chance.IntN(2)], nil, 8*time.Minute, 0, false
	pods := make([]spec, 101)
	for i := range pods {
		pods[i] = makePod(i, chance)
		pods[i].waits, pods[i].volume, pods[i].leaves = false, 0, leavesData
		s.acts = append(s.acts, act{kind: podStarts, pod: i})
		if i > 0 { // the first one lives on
			s.acts = append(s.acts, act{kind: podEnds, pod: i, at: 6*time.Minute + time.Duration(chance.Int64N(int64(time.Minute)))})
		}
	}
	return s, pods
}

// simulate lives the scenario through, and returns the node as it is then.
func simulate(s scenario, plant plant, telling bool) *node {
	n := &node{
		scenario: s, dice: rand.New(rand.NewPCG(s.throw, 1)), telling: telling, inodes: 100,
		byUID: map[parsers.PodUID]*pod{}, tree: tree{map[parsers.PodUID]*dir{}, map[string]*dir{}, map[string]bool{}},
	}
	n.kubelet = kubelet{node: n, version: s.version, inFile: map[parsers.PodUID]bool{}}
	n.log = log{node: n, journald: s.byJournal, proved: map[parsers.PodUID]proof{}, named: map[parsers.PodUID]time.Duration{}, tore: map[parsers.PodUID]proof{}, said: map[parsers.PodUID]int{}}
	n.net = network{archives: map[string][]cni.File{}, dates: map[string]time.Time{}}
	n.runtime = runtime{up: true, network: true, staged: map[int]bool{}}
	n.state = &memory{node: n, files: map[string]*file{}}
	n.faults = faults{slow: n.pace(false), last: -time.Hour, broken: -time.Hour, wasFull: -time.Hour}
	n.oracle.begin()
	n.program.plant = plant
	for i, has := range s.pods {
		p := &pod{spec: has, index: i}
		n.pods, n.byUID[p.uid] = append(n.pods, p), p
	}
	for _, a := range s.acts {
		n.powerFails = n.powerFails || a.kind == powerLost
		n.after(a.at, func() {
			if a.step == atOnce {
				n.act(a)
			} else {
				n.waiting = append(n.waiting, a)
			}
		})
	}
	n.kubelet.start()
	n.after(n.between(0, time.Minute), n.start)
	n.run(s.calm)
	n.calmDown()
	end := s.calm + n.patience()
	for resumed := 0; n.now < end && n.oracle.failed == "" && !n.settled(); {
		n.run(min(end, n.now+10*time.Minute))
		if !n.oracle.open {
			continue
		}
		if resumed++; resumed > 3 {
			n.oracle.fail(n, "the breaker opens again and again, though nothing happens to the node")
		}
		n.order(operatorResumes, n.pods[0]) // it opened rightly, and the operator has the program go on
		end = n.now + n.patience()
	}
	n.oracle.ends(n)
	return n
}

// settled reports whether nothing is left to wait for: each directory is a living pod's, and what lies in quarantine waits for its retention or an
// operator.
func (n *node) settled() bool {
	for uid := range n.dirs {
		if p := n.byUID[uid]; !p.alive() || !p.waits && !p.done && !p.runs() {
			return false
		}
	}
	if n.program.store.Refresh() != nil { // an operator's command may have written last
		return false
	}
	entries := n.program.store.Entries()
	for name, d := range n.quarantine {
		e := entries[name]
		if e == nil || e.Phase == policy.PhaseParked || e.Phase.Intent() {
			return false
		}
		if e.Phase == policy.PhaseConfirmed && n.agedFor(d) > 0 && n.rules.Retention < time.Hour { // it goes soon
			return false
		}
	}
	return true
}

// faults are what goes wrong now.
type faults struct {
	slow    time.Duration // how long a read may take
	reads   int           // one read in so many is not answered
	writes  int           // one change of a directory in so many is refused
	io      int           // one write to the state directory in so many fails
	dark    source        // this one is never answered
	shut    int           // the program may not change the node, for one of two reasons, or does not know whether it may
	full    bool          // the disk has no block left
	away    bool          // the API server does not answer
	last    time.Duration // when something went wrong last
	broken  time.Duration // when a change or a write went wrong last
	wasFull time.Duration // when it had none last
	refused int           // so many changes were refused so far
}

// breaks notes that a change or a write goes wrong.
func (n *node) breaks() { n.faults.last, n.faults.broken = n.now, n.now }

// calmDown ends everything that is out of order. From now on the program has no excuse.
func (n *node) calmDown() {
	n.tell("from now on nothing happens to the node")
	n.waiting = nil
	if n.faults.full {
		n.faults.wasFull = n.now
	}
	n.faults = faults{slow: n.pace(false), last: n.faults.last, broken: n.faults.broken, wasFull: n.faults.wasFull, refused: n.faults.refused}
	n.log.late, n.log.lost = 0, false
	n.runtime.up, n.runtime.emptied, n.runtime.network, n.runtime.hidden = true, false, true, false
	for _, p := range n.pods {
		if d := n.dirs[p.uid]; d != nil {
			d.inUse = 0
		}
	}
	for _, d := range n.quarantine {
		d.inUse = 0
	}
	if n.kubelet.alone {
		n.kubelet.stop()
		n.kubelet.alone = false
	}
	n.kubelet.start()
	n.noticeAll()
	if n.observes {
		n.observes = false
		n.kill(0)
	}
	n.start()
	if n.oracle.open {
		n.order(operatorResumes, n.pods[0])
	}
}

// trouble is what is so for a time, and how the story says it.
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
	switch a.kind { //nolint:exhaustive // the others are in troubles, or happen in a directory
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
		n.tell("somebody forges lines about %s", p)
		for i := range 1 + a.arg%4 {
			n.log.forge(p.uid, a.arg/4+i)
		}
	case sandboxesEvicted:
		n.tell("sandboxes that have stopped are removed")
		for _, q := range n.pods {
			n.forgetSandboxes(q)
		}
	case logsCleaned:
		n.tell("somebody removes the log directory of %s", p)
		p.logs = p.logs && p.runs()
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
}

// losePower switches the machine off at once: of the changes that nobody synced, the last are lost.
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
// may not be ready until the pod that sets it up has started. CRI-O then has no sandbox any more, and a /var/log on a tmpfs no directory.
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
			p.sandboxes, p.logs = nil, false
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
