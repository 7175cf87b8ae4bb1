package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
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

	rules     policy.Rules
	version   int
	byJournal bool
	partial   bool // the kubelet's socket lists before all pods are in
	calm      time.Duration
	quick     bool // the look takes no time to speak of
	brisk     bool // the kubelet takes little time to make a pod
}

// chance decides what a seed makes of a scenario.
type chance struct{ *rand.Rand }

// one is true once in so many times.
func (c chance) one(in int) bool { return c.IntN(in) == 0 }

// before is some time that is shorter.
func (c chance) before(most time.Duration) time.Duration { return time.Duration(c.Int64N(int64(most))) }

func (c chance) minutes(of ...int) time.Duration {
	return time.Duration(of[c.IntN(len(of))]) * time.Minute
}

// newScenario makes a scenario of so many lives.
func newScenario(seed uint64, lives int) scenario {
	c := chance{rand.New(rand.NewPCG(seed, 0))}
	s := scenario{
		seed: seed, version: []int{24, 28, 33, 37}[c.IntN(4)],
		rules: policy.Rules{
			Hold: c.minutes(5, 1, 2, 1), Confirm: c.minutes(5, 5, 4),
			Retention: c.minutes(60, 11, 2), CNIOlderThan: c.minutes(5, 60),
		},
		byJournal: !c.one(4), partial: c.one(4), quick: c.one(3), brisk: c.one(2),
	}
	if c.one(8) {
		s.rules.MaxPerLook = 2
	}
	s.pods = make([]spec, 2+c.IntN(max(1, lives/2)))
	for i := range s.pods {
		s.pods[i] = makePod(i, c.Rand)
	}
	s.calm = 10*time.Minute + time.Duration(c.IntN([]int{15, 15, 50}[c.IntN(3)]))*time.Minute
	mortal := len(s.pods)
	if !c.one(8) { // a pod of a DaemonSet, which is always there
		p := makePod(mortal, c.Rand)
		p.static, p.stated, p.waits, p.uid = false, false, false, parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-ffffffffffff", c.Uint32()))
		s.pods = append(s.pods, p)
		s.acts = append(s.acts, act{kind: podStarts, pod: mortal})
	}
	s.addLives(c, lives, mortal)
	s.addTroubles(c, mortal)
	if c.one(20) { // a retention ends while the program only observes
		s.calm, s.rules.Retention = max(s.calm, 35*time.Minute), 11*time.Minute
		s.acts = append(s.acts, act{kind: programKilled, at: 15*time.Minute + c.before(s.calm)/4, lasts: time.Second})
	}
	if c.one(8) {
		s.addMishap(c)
	}
	if lives >= 10 && seed%1000 == 500 {
		s.makeBacklog(c)
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return int(a.at - b.at) })
	s.throw = c.Uint64()
	return s
}

// addLives has each of the mortal pods live once, and static ones again: often just when the program is about to move the directory.
func (s *scenario) addLives(c chance, lives, mortal int) {
	for i := range max(lives, mortal) {
		p := i % mortal
		if i >= mortal && !s.pods[p].static {
			if p = slices.IndexFunc(s.pods[:mortal], func(q spec) bool { return q.static }); p < 0 {
				return
			}
		}
		begin := act{kind: podStarts, pod: p}
		switch {
		case i < mortal && !c.one(3):
			begin.at = c.before(s.calm) / 4
		case i < mortal:
		default:
			if begin.at = c.before(s.calm); !c.one(3) {
				begin.step, begin.skip, begin.lasts = step(1+c.IntN(int(stepUnlink))), c.IntN(1+c.IntN(12)), c.before(time.Second<<c.IntN(3))
				if c.one(5) {
					begin.step = stepConfirm
				}
				if begin.step != stepRead {
					begin.skip = 0
				}
			}
		}
		s.acts = append(s.acts, begin)
		end := act{kind: podEnds, pod: p, at: begin.at + c.before(12*time.Minute)}
		if c.one(4) {
			end.at = begin.at + c.before(20*time.Second)
		}
		if !c.one(5) {
			s.acts = append(s.acts, end)
		}
	}
}

// addTroubles: a node has troubles of a few kinds only, and of these more than one.
func (s *scenario) addTroubles(c chance, mortal int) {
	kinds := make([]kind, 1+c.IntN(4))
	for i := range kinds {
		if kinds[i] = podCompletes + kind(c.IntN(int(numKinds-podCompletes))); c.one(4) {
			kinds[i] = []kind{sourceFails, sourceFails, programKilled, operatorRestores, fileOpened}[c.IntN(5)]
		}
	}
	for range c.IntN(10) {
		a := act{at: c.before(s.calm), kind: kinds[c.IntN(len(kinds))], pod: c.IntN(mortal), arg: c.IntN(64)}
		a.lasts = []time.Duration{time.Second, 10 * time.Second, time.Minute, 6 * time.Minute, 20 * time.Minute}[c.IntN(5)]
		if c.one(2) {
			a.step, a.skip = step(1+c.IntN(int(numSteps)-1)), c.IntN(6)
		}
		if a.kind == programKilled && c.one(3) {
			a.step, a.skip = stepSweep, 0
		}
		s.acts = append(s.acts, a)
	}
}

// addMishap adds what rarely comes together by chance.
func (s *scenario) addMishap(c chance) {
	at := c.before(s.calm)
	add := func(after time.Duration, a act) {
		a.at = at + after
		s.acts = append(s.acts, a)
	}
	switch c.IntN(5) {
	case 0: // mounts come, or cannot be read, just when that counts
		what := []kind{mountsHidden, mountAppears, sourceFails, readsFail}[c.IntN(4)]
		add(0, act{kind: what, step: stepAsk, skip: c.IntN(6), lasts: 10 * time.Second, arg: int(ofMounts) - 1})
	case 1: // a node that has lost all sandboxes starts while the API server is away, and lines are forged
		at /= 4
		s.calm = max(s.calm, 35*time.Minute)
		add(0, act{kind: serverAway, lasts: 20 * time.Minute})
		add(time.Second, act{kind: nodeReboots, arg: 1})
		add(5*time.Minute, act{kind: linesForged, arg: 20 + c.IntN(4)})
	case 2: // jobs complete, and their sandboxes are removed to make room
		for i := range s.pods {
			add(0, act{kind: podCompletes, pod: i})
		}
		add(time.Minute, act{kind: sandboxesEvicted})
	case 3: // a kubelet that starts takes up volumes of dead pods: its lines are lost, or the program is killed while it clears these
		for i := range s.pods {
			s.pods[i].leaves = leavesLeaf
		}
		if add(0, act{kind: kubeletRestarts, lasts: time.Second}); c.one(3) {
			add(0, act{kind: linesLost, lasts: 20 * time.Minute})
			return
		}
		add(0, act{kind: programKilled, step: []step{stepMoved, stepAppend}[c.IntN(2)], skip: c.IntN(3), lasts: time.Second, arg: 1})
	case 4: // a static pod whose manifest states its UID comes back once it is parked, and ends again when that is to be confirmed
		p := &s.pods[0]
		p.static, p.stated, p.waits, p.name = true, true, false, policy.PodName{Namespace: "kube-system", Name: "static-0-node"}
		p.uid = parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", c.Uint32()))
		at /= 4
		add(0, act{kind: podStarts})
		add(time.Minute, act{kind: podEnds})
		add(2*time.Minute, act{kind: podStarts, step: stepMoved, lasts: c.before(s.rules.Confirm)})
		add(2*time.Minute, act{kind: podEnds, step: stepConfirm})
	}
}

// makeBacklog leaves nothing of a scenario but that a hundred pods, which all ran, end within a minute.
func (s *scenario) makeBacklog(c chance) {
	s.version, s.acts, s.calm, s.rules.MaxPerLook = []int{33, 37}[c.IntN(2)], nil, 8*time.Minute, 0
	s.pods = make([]spec, 101)
	for i := range s.pods {
		s.pods[i] = makePod(i, c.Rand)
		s.pods[i].waits, s.pods[i].volume, s.pods[i].leaves = false, 0, leavesData
		s.acts = append(s.acts, act{kind: podStarts, pod: i})
		if i > 0 { // the first one lives on
			s.acts = append(s.acts, act{kind: podEnds, pod: i, at: 6*time.Minute + c.before(time.Minute)})
		}
	}
}
