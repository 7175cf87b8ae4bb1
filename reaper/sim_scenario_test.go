package reaper_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// step is a moment in what the program does.
type step uint8

const (
	atOnce      step = iota // at the given time, whatever the program does
	stepRead                // between two reads of a scan
	stepIntent              // an intent to move was written
	stepRecheck             // the scan right before a rename begins
	stepRename              // right before a rename
	stepMoved               // right after a rename
	stepRemove              // before something in quarantine is removed
	stepAppend              // before events are written
	stepWrite               // in the middle of a write to the state directory
	stepConfirm             // a scan begins by which an entry may be confirmed
	numSteps
)

// kind is what happens to the node.
type kind uint8

const (
	podStarts kind = iota // the API server binds it, or its manifest appears; also again, under the same UID
	podEnds
	kubeletRestarts
	nodeBoots
	powerFails
	programKilled
	programStopped // politely
	linesForged
	linesQuoted // the kubelet prints an error that quotes a report raw
	mountAppears
	mountText // a mount table has the UID as a text
	mountGoes
	clockSet
	operatorSweeps
	operatorRestores
	operatorReplaces
	operatorPurges
	operatorResumes
	operatorScans
	upgraded // a kubelet starts while the old one still runs
	verbose  // -v=3, -v=5, and back
	// What lasts for a time.
	runtimeHangs
	runtimeEmpty
	mountsHidden
	listHangs
	readsFail
	readsBusy
	readsSlow
	blind // the program does not see the node's mounts
	changesFail
	changesStuck
	writesFail
	diskFull
	journalFails
	linesLate
	linesLost
	numKinds
)

// act is one thing that happens: at a time, or at the first such step of the program after it.
type act struct {
	at    time.Duration
	step  step
	skip  int // so many such steps pass first
	kind  kind
	pod   int
	lasts time.Duration
	arg   int
}

// leftover is what is left of a pod that has ended.
type leftover uint8

const (
	leavesNothing leftover = iota // the kubelet removes the directory
	leavesData                    // a process wrote into a volume's directory while nothing was mounted there
	leavesVolData                 // vol_data.json, the mount is gone
	leavesMount                   // a mount: the kubelet reports nothing
	leavesAll                     // nothing was torn down
	leavesHeld                    // the volume manager still has a volume
	numLeftovers
)

// spec is what a pod has in each of its lives.
type spec struct {
	uid     parsers.PodUID
	static  bool // from a manifest; its UID has no dashes, unless marked
	marked  bool // its UID has dashes, and its sandbox kubernetes.io/config.source=file
	secret  bool // a tmpfs
	volume  int  // a CSI volume, 0: none
	leaves  leftover
	sandbox time.Duration // how long the runtime takes to make its sandbox
	publish time.Duration // how long NodePublish takes
}

// scenario is all that a seed decides before the run begins.
type scenario struct {
	seed, throw uint64
	pods        []spec
	acts        []act
	settings    judge.Settings
	version     int  // of the kubelet, 1.N
	file        bool // it logs to a file, else to the journal
	json        bool
	verbosity   int
	quick       bool // reads take no time to speak of
	calm        time.Duration
}

type chance struct{ *rand.Rand }

func (c chance) one(in int) bool                         { return c.IntN(in) == 0 }
func (c chance) before(most time.Duration) time.Duration { return time.Duration(c.Int64N(int64(most))) }
func (c chance) of(all ...time.Duration) time.Duration   { return all[c.IntN(len(all))] }
func (c chance) pick(all ...int) int                     { return all[c.IntN(len(all))] }

func newScenario(seed uint64) scenario {
	c := chance{rand.New(rand.NewPCG(seed, 0))}
	s := scenario{
		seed: seed, version: c.pick(19, 28, 33, 37, 37), file: c.one(3), json: c.one(4), verbosity: c.pick(2, 2, 2, 3, 5), quick: c.one(3),
		settings: judge.Settings{
			Hold: c.of(time.Minute, time.Minute, 20*time.Second), Confirm: c.of(5*time.Minute, 2*time.Minute), Retention: c.of(2*time.Hour, 11*time.Minute),
		},
		calm: 10*time.Minute + c.before(c.of(15*time.Minute, 40*time.Minute)),
	}
	if c.one(8) {
		s.settings.MaxPerScan = 1
	}
	s.settings.Observe = c.one(25)
	mortal := 1 + c.IntN(5)
	for i := range mortal {
		s.pods = append(s.pods, newSpec(c, i))
	}
	s.pods = append(s.pods, spec{uid: "ffffffff-ffff-4fff-8fff-ffffffffffff"}) // of a DaemonSet, which always runs
	s.acts = append(s.acts, act{kind: podStarts, pod: mortal})
	for i := range mortal {
		s.addLives(c, i)
	}
	s.addTroubles(c, mortal)
	if c.one(3) {
		s.addCoincidence(c, c.IntN(mortal))
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return int(a.at - b.at) })
	s.throw = c.Uint64()
	return s
}

func newSpec(c chance, i int) spec {
	p := spec{
		uid: parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", c.Uint32(), i)), static: c.one(2), secret: c.one(2),
		leaves: leftover(c.pick(0, 1, 1, 2, 2, 3, 4, 4, 5)), sandbox: c.of(time.Second, time.Second, 5*time.Second, 40*time.Second),
		publish: c.of(time.Second, time.Second, 100*time.Second),
	}
	if p.marked = p.static && c.one(3); p.static && !p.marked {
		p.uid = parsers.PodUID(fmt.Sprintf("%016x%016x", c.Uint64(), i))
	}
	if c.one(2) {
		p.volume = 1 + c.IntN(3)
	}
	return p
}

// addLives has a pod live once, and a static one again: often just when the program is about to move its directory.
func (s *scenario) addLives(c chance, i int) {
	at := c.before(s.calm / 4)
	for life := 0; ; life++ {
		begin := act{kind: podStarts, pod: i, at: at}
		if life > 0 && !c.one(3) {
			begin.step = step(1 + c.IntN(int(numSteps)-1))
			if begin.lasts = c.before(time.Second << c.IntN(4)); begin.step == stepRead {
				begin.skip = c.IntN(8)
			}
		}
		s.acts = append(s.acts, begin)
		at += c.of(20*time.Second, time.Minute, 12*time.Minute)
		if !c.one(5) {
			s.acts = append(s.acts, act{kind: podEnds, pod: i, at: at})
		}
		at += c.before(10 * time.Minute)
		if !s.pods[i].static && !c.one(5) || at > s.calm || c.one(4) { // few pods of the API server return: a restored etcd
			return
		}
	}
}

// addTroubles adds what goes wrong: of few kinds, and of these more than one.
func (s *scenario) addTroubles(c chance, mortal int) {
	kinds := make([]kind, 1+c.IntN(4))
	for i := range kinds {
		if kinds[i] = podEnds + 1 + kind(c.IntN(int(numKinds-podEnds-1))); c.one(4) { // one source of the scan
			kinds[i] = runtimeHangs + kind(c.IntN(int(readsBusy-runtimeHangs)))
		}
	}
	for range c.IntN(10) {
		a := act{at: c.before(s.calm), kind: kinds[c.IntN(len(kinds))], pod: c.IntN(mortal), arg: c.IntN(64)}
		a.lasts = c.of(time.Second, 10*time.Second, time.Minute, 6*time.Minute, 20*time.Minute)
		if c.one(2) {
			a.step, a.skip = step(1+c.IntN(int(numSteps)-1)), c.IntN(4)
		}
		s.acts = append(s.acts, a)
	}
}

// addCoincidence adds what rarely comes together by chance.
func (s *scenario) addCoincidence(c chance, i int) {
	at := c.before(s.calm)
	add := func(after time.Duration, a act) {
		a.at, a.pod = at+after, i
		s.acts = append(s.acts, a)
	}
	stop := act{kind: kind(c.pick(int(programKilled), int(programStopped))), lasts: c.of(time.Second, 10*time.Minute)}
	switch c.IntN(11) {
	case 0: // the pod returns right before the rename, and the program ends right after it
		add(0, act{kind: podStarts, step: step(c.pick(int(stepRecheck), int(stepRename), int(stepMoved)))})
		stop.step = step(c.pick(int(stepMoved), int(stepAppend)))
		add(0, stop)
	case 1: // it returns in quarantine, and ends when it is to be confirmed
		add(0, act{kind: podStarts, step: stepMoved, lasts: c.before(s.settings.Confirm)})
		add(0, act{kind: podEnds, step: stepConfirm})
	case 2: // an operator restores it, and the program ends meanwhile
		add(0, act{kind: operatorRestores, step: stepMoved})
		stop.step = step(c.pick(int(stepRename), int(stepMoved), int(stepWrite)))
		add(0, stop)
	case 3: // an operator restores it and sweeps it later
		add(0, act{kind: operatorRestores, step: stepMoved})
		add(20*time.Minute, act{kind: operatorSweeps})
	case 4: // the kubelet's own lines are lost, and there are forged ones of each kind about a pod that is dead
		s.calm = max(s.calm, 35*time.Minute)
		at /= 2
		add(0, act{kind: podEnds})
		add(time.Second, act{kind: linesLost, lasts: 20 * time.Minute})
		for n := range 24 {
			add(5*time.Minute+time.Duration(n)*10*time.Second, act{kind: kind(c.pick(int(linesForged), int(linesForged), int(linesQuoted))), arg: c.IntN(8)})
		}
	case 6: // the kubelet restarts just when the pod is judged
		add(0, act{kind: kubeletRestarts, step: step(c.pick(int(stepRead), int(stepIntent), int(stepRecheck), int(stepRename))), skip: c.IntN(8), lasts: c.of(10*time.Millisecond, 10*time.Second)})
	case 10: // an operator purges it just when it is alive again, or mounted
		add(0, act{kind: kind(c.pick(int(podStarts), int(mountAppears)))})
		add(c.of(5*time.Second, time.Minute), act{kind: operatorPurges})
	case 8: // a tenant's mount has the UID as a text when the pod is to be confirmed
		add(0, act{kind: mountText, step: stepConfirm, lasts: time.Minute})
	case 9: // the machine boots while the pod is in quarantine
		add(0, act{kind: kind(c.pick(int(nodeBoots), int(powerFails))), step: stepMoved, lasts: c.before(s.settings.Confirm), arg: c.IntN(64)})
	case 7: // the node is busy, and the pod returns for a moment
		add(0, act{kind: readsBusy, lasts: 3 * time.Minute})
		add(time.Minute, act{kind: podStarts, step: stepRead, skip: c.IntN(8)})
		add(time.Minute, act{kind: podEnds, step: stepRead, skip: 8 + c.IntN(8)})
	case 5: // a clean is cut short, and the pod returns
		stop.step = stepRemove
		add(0, stop)
		add(time.Second, act{kind: podStarts, step: stepAppend})
	}
}
