package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
)

// Taker is who takes what may go: nobody waits for what never comes.
type Taker struct {
	runs    policy.Truth // a daemon
	stopped string       // what keeps the daemon, or a sweep where there is none, from it; "" for nothing
	wait    time.Duration
	sweeps  string // the sweep that is at work where no daemon runs, or ""
}

// TakerOf says who takes what a look found; observe is what the configuration has where no daemon tells, and
// wait are its hold and its confirm together.
func TakerOf(n policy.Node, breaker bool, d diagnosis.Daemon, observe bool, wait time.Duration) Taker {
	t := Taker{runs: d.Runs, wait: wait}
	if d.Runs == policy.No && d.PID > 0 { // nothing else takes the daemon's lock
		t.sweeps = fmt.Sprintf("A sweep (PID %d) is at work", d.PID)
	}
	if d.Mode != "" {
		observe = d.Mode != "enforce"
	}
	why, stopped := policy.Standing{Node: n, Breaker: breaker, Rules: policy.Rules{Observe: observe}}.Gate().Stops()
	switch {
	case !stopped:
	case why.Reason == policy.ReasonObserve && d.Runs == policy.Yes:
		t.stopped = "the daemon runs in mode observe"
	default:
		t.stopped = clean.Text(why.Detail)
	}
	return t
}

// Now says what takes what may go now. it is "it" or "them", and sweep the command.
func (t Taker) Now(it, sweep string) string {
	switch {
	case t.stopped != "":
		return "Nothing is removed: " + t.stopped + "."
	case t.sweeps != "":
		return t.sweeps + " on " + it + "."
	case t.runs == policy.No:
		return "No daemon runs here. To remove " + it + " now: " + sweep
	case t.runs == policy.Unknown:
		return "Whether a daemon runs here is not known. To remove " + it + " now: " + sweep
	}
	return ""
}

// Later says what becomes of what has to wait, "" where the daemon takes it by itself.
func (t Taker) Later(sweep string) string {
	waits := "waits out hold and confirm, some " + human.Span(t.wait) + ": " + sweep
	switch {
	case t.stopped != "":
		return "Nothing is removed after the wait: " + t.stopped + "."
	case t.sweeps != "":
		return t.sweeps + " and waits for it."
	case t.runs == policy.No:
		return "No daemon runs here. This " + waits
	case t.runs == policy.Unknown:
		return "Whether a daemon runs here is not known. Without one, this " + waits
	}
	return ""
}

// InUse says what has to end before a pod may go that is dead and still in use, "" for any other.
func InUse(why []policy.Why) string {
	for _, w := range why {
		if w.Reason != policy.ReasonInUse {
			continue
		}
		if process, _, one := strings.Cut(w.Detail, " has "); one && strings.HasPrefix(process, "PID ") {
			return clean.Text(process) + " ends"
		}
		return "no process or loop device is found to use a file of it"
	}
	return ""
}

// After says that a pod goes once something has ended, and what takes it then.
func (t Taker) After(ends, sweep string) string {
	switch {
	case t.stopped != "":
		return "It can be removed when " + ends + ". " + t.Later(sweep)
	case t.runs == policy.Yes:
		return "It is removed when " + ends + "."
	}
	return "It can be removed when " + ends + ". Then run: " + sweep
}

// Nobody reports whether no daemon runs, so that the time which passes counts for nothing.
func (t Taker) Nobody() bool { return t.runs == policy.No }
