package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// Remover names the process, if any, that will remove eligible pods. The zero value is a daemon that enforces.
type Remover struct {
	note  string // why no daemon removes them
	final bool   // a sweep would not remove them either
	none  bool   // no daemon runs
	wait  time.Duration
}

// RemoverOf returns which process removes the pods of a look. observe is the configuration's mode, used if no
// daemon reports its own; wait is its hold and its confirm time together.
func RemoverOf(n policy.Node, breaker bool, d summary.Daemon, observe bool, wait time.Duration) Remover {
	if d.Mode != "" {
		observe = d.Mode != "enforce"
	}
	r := Remover{wait: wait, none: d.Runs == policy.No}
	why, stopped := policy.Standing{Node: n, Breaker: breaker, Rules: policy.Rules{Observe: observe}}.Gate().Stops()
	switch {
	case stopped && why.Reason == policy.ReasonObserve && d.Runs == policy.Yes:
		r.note, r.final = "Nothing is removed: the daemon runs in mode observe.", true
	case stopped:
		r.note, r.final = "Nothing is removed: "+clean.Text(why.Detail)+".", true
	default:
		r.note, r.final = Absent(d)
	}
	return r
}

// Absent returns a note if no daemon is known to run, and whether a sweep runs.
func Absent(d summary.Daemon) (note string, sweeps bool) {
	switch {
	case d.Runs == policy.No && d.PID > 0: // only a sweep holds the daemon's lock
		return fmt.Sprintf("A sweep (PID %d) is at work.", d.PID), true
	case d.Runs == policy.No:
		return "No daemon runs here.", false
	case d.Runs == policy.Unknown:
		return "Whether a daemon runs here is not known.", false
	}
	return "", false
}

// NoDaemon reports whether no daemon runs, in which case no hold begins.
func (r Remover) NoDaemon() bool { return r.none }

// Now returns what removes eligible pods now, "" for the daemon. it is "it" or "them", and sweep the command.
func (r Remover) Now(it, sweep string) string { return r.with(" To remove " + it + " now: " + sweep) }

// Later returns what removes pods that only wait for time to pass, "" for the daemon.
func (r Remover) Later(sweep string) string {
	return r.with(" This waits out hold and confirm, some " + human.Span(r.wait) + ": " + sweep)
}

// After returns when a pod can be removed that waits for something to end, and what removes it then.
func (r Remover) After(ends, sweep string) string {
	if r.note == "" {
		return "It is removed when " + ends + "."
	}
	return "It can be removed when " + ends + ". " + r.with(" Then run: "+sweep)
}

func (r Remover) with(command string) string {
	if r.note == "" || r.final {
		return r.note
	}
	return r.note + command
}

// Ends returns what a dead pod waits for besides time, "" if nothing.
func Ends(why []policy.Why) string {
	for _, w := range why {
		switch process, _, one := strings.Cut(w.Detail, " has "); {
		case w.Reason == policy.ReasonInUse && one && strings.HasPrefix(process, "PID "):
			return clean.Text(process) + " ends"
		case w.Reason == policy.ReasonInUse:
			return "no process or loop device is found to use a file of it"
		}
	}
	return ""
}
