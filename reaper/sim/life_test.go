package sim

import (
	"math/rand/v2"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// simulate lives the scenario through, and returns the node as it is then.
func simulate(s scenario, plant plant, telling bool) *node {
	n := &node{
		scenario: s, dice: rand.New(rand.NewPCG(s.throw, 1)), telling: telling, inodes: 100,
		byUID: map[parsers.PodUID]*pod{}, tree: tree{map[parsers.PodUID]*dir{}, map[string]*dir{}, map[string]bool{}},
	}
	n.kubelet = kubelet{node: n, version: s.version}
	n.log = log{
		node: n, journald: s.byJournal, heard: map[parsers.PodUID][]proof{}, tornDown: map[parsers.PodUID]proof{},
	}
	n.net = network{archives: map[string][]cni.File{}, dates: map[string]policy.Instant{}}
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
	from := s.calm
	for resumed := 0; n.now < from+n.patience() && n.oracle.failed == "" && !n.settled(); {
		n.run(min(from+n.patience(), n.now+10*time.Minute))
		if !n.oracle.open {
			continue
		}
		if resumed++; resumed > 3 {
			n.oracle.fail(n, "the breaker opens again and again, though nothing happens to the node")
		}
		n.order(operatorResumes, n.pods[0]) // it opened rightly, and the operator has the program go on
		from = n.now
	}
	n.oracle.ends(n)
	return n
}

// settled reports whether nothing is left to wait for: each directory is a living pod's, and what lies in quarantine waits for its retention or an
// operator.
func (n *node) settled() bool {
	for _, p := range n.pods {
		starts := p.wanted && !p.waits && !p.done && !p.runs()
		if starts || n.dirs[p.uid] != nil && !p.alive() {
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

	unwritten time.Duration // when a write to the state directory failed last
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
	was := n.faults
	n.faults = faults{
		slow: n.pace(false), last: was.last, broken: was.broken, wasFull: was.wasFull, refused: was.refused, unwritten: was.unwritten,
	}
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
