package decide

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// Memory is what one pass leaves for the next, across restarts. What is not saved starts again
// with the process.
type Memory struct {
	Holds map[parsers.PodUID]policy.Hold `json:"holds"`
	// Recorded is the last refusal that was recorded of a pod: it is recorded again only when it changes.
	Recorded map[parsers.PodUID]string `json:"told"`
	// Names are those of the pods that have a directory, if they are known.
	Names map[parsers.PodUID]policy.PodName `json:"names,omitempty"`
	// Static are the pods among them that were seen to be static ones.
	Static map[parsers.PodUID]bool `json:"static,omitempty"`

	// Refused has the pods in place of which the last try was refused.
	Refused map[parsers.PodUID]Refusal `json:"refused,omitempty"`

	// Log is what the running kubelet reported. It is saved by itself.
	Log reported.Log `json:"-"`
	// Messages counts the lines about each pod, for display. It is saved by itself.
	Messages reported.Messages `json:"-"`
	// Pressed is Node.Pressed of the last look.
	Pressed bool `json:"-"`

	listed map[parsers.PodUID]bool // the pods that the last look has seen
	stuck  map[string]Refusal      // what lies in quarantine, by entry
}

// copied returns a memory that can be changed without changing m. What is made again by each
// ruling is shared.
func (m *Memory) copied(claims bool) Memory {
	c := *m
	c.Messages = m.Messages.Clone()
	if claims {
		c.Log = m.Log.Clone()
	}
	return c
}

// Refusal is a step that the kernel or the file system refused. A try at every look would fill the ledger. A new process
// tries at once: an operator may have started it for that.
type Refusal struct {
	Why  []policy.Why  `json:"why"`
	next time.Duration // not to be tried before, on the boot clock
	gap  time.Duration
}

// The least and the longest time between two tries to move a pod that cannot be moved.
const (
	retryFirst = 5 * time.Minute
	retryLast  = time.Hour
	// retryStuck is the least for what lies in quarantine: it may have to go back.
	retryStuck = 30 * time.Second
	// retryBack is the longest for what has to go back.
	retryBack = 5 * time.Minute
)

// Equal reports whether the two are for the same reasons.
func (no Refusal) Equal(other Refusal) bool { return slices.Equal(no.Why, other.Why) }

// again returns the refusal after another one.
func (no Refusal) again(first, last time.Duration, why []policy.Why, now time.Duration) Refusal {
	gap := no.gap
	if gap == 0 {
		gap = first
	}
	return Refusal{Why: why, next: now + gap, gap: min(2*gap, last)}
}

// TooSoon reports whether the last step with the entry failed not long ago.
func (m *Memory) TooSoon(entry string, now policy.Instant) bool {
	return now.Boot < m.stuck[entry].next
}

// Tried reports whether the last step with the entry failed.
func (m *Memory) Tried(entry string) bool { _, ok := m.stuck[entry]; return ok }

// backOff keeps the pods whose last try was refused, until it is time for another. A dry run does not try.
func (m *Memory) backOff(c Case, pods []policy.Judged) {
	for p := range policy.At(pods, policy.InPlace) {
		if no, ok := m.Refused[p.UID]; ok && p.Goes() && (c.DryRun || c.Look.At.Boot < no.next) {
			p.Refuse(no.Why)
		}
	}
}

// Ended records how actions ended: a refused one is not tried at every look.
func (m *Memory) Ended(outs []policy.Outcome, now policy.Instant) {
	if m.stuck == nil {
		if m.Refused == nil {
			m.Refused = map[parsers.PodUID]Refusal{}
		}
		m.stuck = map[string]Refusal{}
	}
	for _, o := range outs {
		uid, refused := o.Action.UID, o.Result == policy.Refused || o.Result == policy.Failed
		if o.Withdrawn {
			continue // the next look sees what the last question saw
		}
		switch o.Action.Kind {
		case policy.Park:
			if refused = o.Result == policy.Refused; o.Result == policy.Done {
				m.Messages.Moved(uid, true, now)
			}
		case policy.Clear:
			if o.Result == policy.Done {
				// What appears in the leaf from now on needs a hold of its own.
				delete(m.Holds, uid)
				m.Messages.Moved(uid, false, now)
			}
		case policy.PutBack, policy.Strip, policy.Purge:
			m.entryEnded(o, refused, now)
			continue
		}
		if refused {
			m.Refused[uid] = m.Refused[uid].again(retryFirst, retryLast, o.Why, now.Boot)
		} else {
			delete(m.Refused, uid)
		}
	}
}

// entryEnded records how an action on an entry of the quarantine ended.
func (m *Memory) entryEnded(o policy.Outcome, refused bool, now policy.Instant) {
	if entry := o.Action.Entry; refused {
		last := retryLast
		if o.Action.Kind == policy.PutBack {
			last = retryBack
		}
		m.stuck[entry] = m.stuck[entry].again(retryStuck, last, nil, now.Boot)
	} else {
		delete(m.stuck, entry)
	}
}

// News reports whether to record why a pod is kept or waits, and returns the text by which to remember that: each set of
// reasons is recorded once. A pod that plainly lives, or that only waits for a report, is recorded only if the log named it, the limit of a look never.
func (m *Memory) News(p *policy.Judged, named bool) (string, bool) {
	last, known := m.Recorded[p.UID]
	now := p.Signature()
	silent := p.UID == "" || !known && (p.Living() || p.OnlyUnreported()) && !named || p.Goes() || p.For(policy.ReasonLimit)
	return now, !silent && now != last
}
