package advice

import (
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
}

// TakerOf says who takes what a look found; observe is what the configuration has where no daemon tells, and
// wait are its hold and its confirm together.
func TakerOf(n policy.Node, breaker bool, d diagnosis.Daemon, observe bool, wait time.Duration) Taker {
	t := Taker{runs: d.Runs, wait: wait}
	if d.Mode != "" {
		observe = d.Mode != "enforce"
	}
	why, stopped := policy.Stops(n, breaker, policy.Rules{Observe: observe})
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
		return "Nothing takes " + it + ": " + t.stopped + "."
	case t.runs == policy.No:
		return "No daemon runs here that takes " + it + ". Now: " + sweep
	case t.runs == policy.Unknown:
		return sweep + " takes " + it + "; whether a daemon runs here is not known."
	}
	return ""
}

// Later says what becomes of what has to wait, "" where the daemon takes it by itself.
func (t Taker) Later(sweep string) string {
	waits := "waits out hold and confirm, some " + human.Span(t.wait) + ": " + sweep
	switch {
	case t.stopped != "":
		return "Nothing takes it when it has waited: " + t.stopped + "."
	case t.runs == policy.No:
		return "No daemon runs here that waits for it. This " + waits
	case t.runs == policy.Unknown:
		return "A daemon takes it by itself, and whether one runs here is not known. Without one this " + waits
	}
	return ""
}

// Nobody reports whether no daemon runs, so that the time which passes counts for nothing.
func (t Taker) Nobody() bool { return t.runs == policy.No }
