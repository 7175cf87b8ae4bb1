package reaper

import "time"

// Asked is the daemon's answer to somebody who wants a look now.
type Asked struct {
	// Look is the number of the look, counted from the daemon's start.
	Look uint64
	// In is how long from now it begins at the latest; 0 where it is under way.
	In time.Duration
}

const (
	// askedGap is the least time from the end of a look to one that somebody asked for, and
	// askedCNIGap between two turns of the neighbour: the CNI directories may hold 300,000 files.
	askedGap    = 10 * time.Second
	askedCNIGap = 5 * time.Minute
)

// asked answers a question for a look: whoever asks while one runs, or waits to begin, gets
// the same one.
func (d *Daemon) asked(p *pending, running bool, now time.Duration) Asked {
	if running {
		return Asked{Look: d.begun}
	}
	when := now
	if p.ended != 0 {
		when = max(when, p.ended+askedGap)
	}
	p.ask(when)
	p.asked = true
	if d.cniEnded != 0 {
		d.cniDue = min(d.cniDue, max(p.due, d.cniEnded+askedCNIGap))
	}
	return Asked{Look: d.begun + 1, In: max(0, p.due-now)}
}
