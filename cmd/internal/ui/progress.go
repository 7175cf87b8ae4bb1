package ui

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// noteEvery is the time between two lines about a phase on a terminal.
const noteEvery = 10 * time.Second

// Follow returns a Work for a command, and writes its phases to stderr until stop is called: on a terminal those that take
// long, and with verbose each one that ends. It returns nil if nothing would be written.
func Follow(stderr io.Writer, now func() time.Time, verbose bool) (w *progress.Work, stop func()) {
	tty, ok := stderr.(*os.File)
	terminal := ok && term.IsTerminal(int(tty.Fd()))
	if !terminal && !verbose {
		return nil, func() {}
	}
	note := func(p *progress.Phase, took string) {
		_, _ = fmt.Fprintf(stderr, "orphan-reaper: %s\n", clean.Text(phaseText(p, took)))
	}
	w = progress.New(now, func(p *progress.Phase) {
		if verbose {
			note(p, human.Span(now().Sub(p.Began).Round(time.Millisecond)))
		}
	})
	var wg sync.WaitGroup
	ended := make(chan struct{})
	if terminal {
		wg.Go(func() {
			tick := time.NewTicker(noteEvery)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					if p := w.Phase(); p != nil {
						note(p, human.Age(now().Sub(p.Began)))
					}
				}
			}
		})
	}
	return w, sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
		w.End()
	})
}

// phaseText describes a phase: what it does, how much is done, and the time.
func phaseText(p *progress.Phase, took string) string {
	switch done := p.Done(); {
	case p.Unit == "" || done+p.Total == 0:
		return p.What + ": " + took
	case p.Total <= done:
		return p.What + ": " + human.Count(done, p.Unit) + ", " + took
	default:
		return p.What + ": " + human.Thousands(done) + " of " + human.Count(p.Total, p.Unit) + ", " + took
	}
}
