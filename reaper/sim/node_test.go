package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// node is one machine, with all that is on it. Only run and pass move its clock.
type node struct {
	scenario
	dice       *rand.Rand
	now        time.Duration // since the machine was switched on for the first time
	booted     time.Duration
	boots      int
	skew       time.Duration // what the wall clock was set forward
	steps      int           // how often it was set
	back       time.Duration // by so much backwards
	powerFails bool          // sooner or later: what was not synced is remembered until then
	queue      events
	turned     int // events so far, for a total order

	pods     []*pod
	byUID    map[parsers.PodUID]*pod
	tree            // what lies there now
	unsynced []tree // what lay there since the last sync, before each change
	inodes   uint64

	kubelet  kubelet
	runtime  runtime
	log      log
	faults   faults
	net      network
	waiting  []act // for a step of the program
	program  program
	state    *memory
	oracle   oracle
	observes bool     // the program is started in mode observe
	story    []string // nil where it is not read
	telling  bool
}

// event is something that will happen.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

// events is a heap.
type events []event

func (q events) less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q *events) push(e event) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *events) pop() event {
	h := *q
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	*q = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h.less(down+1, down) {
			down++
		}
		if !h.less(down, i) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	return first
}

// after schedules an event.
func (n *node) after(d time.Duration, do func()) {
	n.turned++
	n.queue.push(event{n.now + d, n.turned, do})
}

// pass lets the world go on for d.
func (n *node) pass(d time.Duration) {
	end := n.now + d
	for len(n.queue) > 0 && n.queue[0].at <= end {
		e := n.queue.pop()
		n.now = max(n.now, e.at)
		e.do()
	}
	n.now = max(n.now, end)
}

// run lets the world and the program go on until then, or until the oracle has seen enough.
func (n *node) run(until time.Duration) {
	for n.oracle.failed == "" {
		next := until
		if len(n.queue) > 0 {
			next = min(next, n.queue[0].at)
		}
		if due := n.program.due(); due > 0 && n.booted+due <= next {
			n.now = max(n.now, n.booted+due)
			n.turn()
			continue
		}
		if next >= until {
			n.now = max(n.now, until)
			return
		}
		n.pass(next - n.now)
	}
}

// epoch is when the machine was switched on by its wall clock.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (n *node) wall() time.Time { return epoch.Add(n.now + n.skew) }

// Now is the program's clock.
func (n *node) Now() policy.Instant {
	return policy.Instant{Wall: n.wall(), BootID: "boot-" + strconv.Itoa(n.boots), Boot: n.now - n.booted}
}

// between is some time between two.
func (n *node) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.dice.Int64N(int64(most-least)+1))
}

// oneIn is true once in so many times.
func (n *node) oneIn(times int) bool { return n.dice.IntN(times) == 0 }

// tell adds a line to the story.
func (n *node) tell(format string, args ...any) {
	if !n.telling {
		return
	}
	at := n.now.Truncate(time.Millisecond)
	when := fmt.Sprintf("%02d:%02d:%06.3f  ", int(at.Hours()), int(at.Minutes())%60, (at % time.Minute).Seconds())
	n.story = append(n.story, when+fmt.Sprintf(format, args...))
}

// reach carries out the acts that wait for this step of the program.
func (n *node) reach(step step, uid parsers.PodUID) {
	for i := 0; i < len(n.waiting); i++ {
		if a := n.waiting[i]; a.step == step && (uid == "" || a.pod < 0 || n.pods[a.pod].uid == uid) {
			n.waiting = append(n.waiting[:i], n.waiting[i+1:]...)
			i--
			n.act(a)
		}
	}
}

// newDir makes a directory that no other was.
func (n *node) newDir(uid parsers.PodUID) *dir {
	n.inodes++
	return &dir{uid: uid, id: policy.DirID{Dev: 1, Ino: n.inodes, Btime: n.wall().UnixNano()}, changed: n.wall()}
}
