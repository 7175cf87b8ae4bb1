package ui

import (
	"fmt"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

const (
	// quietFor is how long a command works before it says how far it is: most have ended by then.
	quietFor = time.Second
	// drawEvery is how often the line is drawn anew.
	drawEvery = 200 * time.Millisecond
)

// FollowOptions say what is told of a command's work.
type FollowOptions struct {
	Now     func() time.Time
	Verbose bool // write a line on what each phase did when it ends, also where there is no terminal
}

// Follow returns the Work in which a command counts, and shows it until stop is called, which takes
// the line away. It returns nil where nothing would be shown: then nobody need count.
func (c *Console) Follow(o FollowOptions) (w *progress.Work, stop func()) {
	if c.tty == nil && !o.Verbose {
		return nil, func() {}
	}
	f := &follower{console: c, o: o, start: o.Now(), ended: make(chan struct{})}
	w = progress.New(f.turn)
	var wg sync.WaitGroup
	if c.tty != nil {
		wg.Go(f.draw)
	}
	return w, sync.OnceFunc(func() {
		w.End()
		close(f.ended)
		wg.Wait()
		c.erase()
	})
}

// follower shows one Work.
type follower struct {
	console *Console
	o       FollowOptions
	start   time.Time
	ended   chan struct{}

	mu    sync.Mutex
	phase *progress.Phase // nil between phases
	began time.Time       // when it did
}

// turn takes note of a phase that begins, and tells of one that has ended.
func (f *follower) turn(ended, begun *progress.Phase) {
	now := f.o.Now()
	f.mu.Lock()
	began := f.began
	f.phase, f.began = begun, now
	f.mu.Unlock()
	if begun == nil && f.console.tty != nil {
		f.console.erase() // what follows is the command's answer
	}
	if ended != nil && f.o.Verbose {
		// A note that cannot be written is no failure.
		_, _ = fmt.Fprintf(f.console.stderr, "orphan-reaper: %s\n", clean.Text(did(ended, now.Sub(began))))
	}
}

// draw draws the line until the work is over.
func (f *follower) draw() {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.ended:
			return
		case <-tick.C:
			f.drawNow(f.o.Now())
		}
	}
}

// drawNow draws the line of a phase that has taken a while.
func (f *follower) drawNow(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock() // so that no phase ends between the look at it and the line
	if f.phase == nil || now.Sub(f.start) < quietFor {
		return
	}
	done, total := f.phase.Counts()
	s := soFar{f.phase.What, f.phase.Unit, done, total, now.Sub(f.began)}
	f.console.draw(s.String())
}

// soFar is how far a phase is.
type soFar struct {
	what, unit  string
	done, total int64
	took        time.Duration
}

// did says what a phase did that has ended.
func did(p *progress.Phase, took time.Duration) string {
	done, _ := p.Counts()
	s := soFar{what: p.What, unit: p.Unit, done: done, took: took}
	switch {
	case took < 10*time.Second:
		took = took.Round(time.Millisecond)
	case took < time.Minute:
		took = took.Round(100 * time.Millisecond)
	default:
		took = took.Round(time.Second)
	}
	text := s.what + ": " + human.Span(took)
	if s.counts() {
		text = s.what + ": " + s.amount(done) + " in " + human.Span(took) + ", " + s.rate()
	}
	return text
}

func (s soFar) counts() bool { return s.unit != "" && s.unit != progress.Wait && s.done+s.total > 0 }

// amount writes a count with its unit.
func (s soFar) amount(n int64) string {
	if s.unit == progress.Bytes {
		return human.Size(n)
	}
	return human.Count(n, s.unit)
}

// rate is the mean since the phase began.
func (s soFar) rate() string {
	seconds := max(s.took.Seconds(), 0.001) // a clock may stand still
	return s.short(int64(float64(s.done)/seconds)) + "/s"
}

// String is the line: what is done, how much of it, and how long the rest takes at the mean rate.
func (s soFar) String() string {
	switch {
	case s.unit == progress.Wait:
		return s.what + " in " + human.Age(time.Duration(s.total)-s.took)
	case !s.counts():
		return s.what + ": " + human.Age(s.took)
	case s.total < s.done:
		return s.what + ": " + s.amount(s.done)
	}
	line := s.what + ": " + s.short(s.done) + " of " + s.amount(s.total)
	if s.done > 0 {
		left := float64(s.took) / float64(s.done) * float64(s.total-s.done)
		line += ", " + human.Age(time.Duration(left)+time.Second-1) + " left"
	}
	return line
}

// short writes a count without its noun.
func (s soFar) short(n int64) string {
	if s.unit == progress.Bytes {
		return human.Size(n)
	}
	return human.Thousands(n)
}
