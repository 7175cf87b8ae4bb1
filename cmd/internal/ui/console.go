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

// Console owns the streams of a command: the output, and stderr for notes and records. On a terminal it draws
// one line below them with the current activity and its duration. It draws nothing in a pipe and on a terminal
// without escapes (TERM=dumb).
type Console struct {
	stdout, stderr io.Writer

	tty   *os.File // where the line is drawn, nil where none is
	mu    sync.Mutex
	drawn bool
}

const (
	quietFor  = time.Second // most commands have ended by then
	drawEvery = 200 * time.Millisecond
)

// NewConsole returns the console of a command's streams; env is the environment.
func NewConsole(stdout, stderr io.Writer, env func(string) string) *Console {
	c := &Console{stdout: stdout, stderr: stderr}
	tty, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) || env("TERM") == "dumb" {
		return c
	}
	if f, ok := stdout.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return c // what reads from the pipe may write to this terminal
		}
		if term.IsTerminal(int(f.Fd())) {
			c.stdout = stream{f, c}
		}
	}
	c.tty, c.stderr = tty, stream{tty, c}
	return c
}

// Stdout returns the command's output.
func (c *Console) Stdout() io.Writer { return c.stdout }

// Stderr returns the stream for notes, records and errors.
func (c *Console) Stderr() io.Writer { return c.stderr }

// stream is a terminal. It has no more methods than these: os.File's WriteString would bypass the line.
type stream struct {
	f *os.File
	c *Console
}

// Fd lets a printer ask for the terminal's size.
func (s stream) Fd() uintptr { return s.f.Fd() }

// Write erases the line and writes.
func (s stream) Write(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.erase()
	return s.f.Write(b)
}

// Follow returns the Work in which a command counts, and shows it until stop is called. It returns nil where nothing
// would be shown. With verbose each phase that has ended is written to stderr, on a terminal or not.
func (c *Console) Follow(now func() time.Time, verbose bool) (w *progress.Work, stop func()) {
	if c.tty == nil && !verbose {
		return nil, func() {}
	}
	w = progress.New(now, func(p *progress.Phase) {
		c.mu.Lock()
		c.erase()
		c.mu.Unlock()
		if verbose {
			took := human.Span(now().Sub(p.Began).Round(time.Millisecond))
			_, _ = fmt.Fprintf(c.stderr, "orphan-reaper: %s\n", clean.Text(phaseText(p, took))) // a lost note is no failure
		}
	})
	var wg sync.WaitGroup
	ended := make(chan struct{})
	if c.tty != nil {
		wg.Go(func() { c.drawUntil(ended, w, now) })
	}
	return w, sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
		w.End()
	})
}

// drawUntil draws the line until the work has ended.
func (c *Console) drawUntil(ended <-chan struct{}, w *progress.Work, now func() time.Time) {
	start, tick := now(), time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			if now().Sub(start) >= quietFor {
				c.draw(w, now)
			}
		}
	}
}

// draw replaces the line. It asks for the width each time: the window may have changed. It holds the lock, so that no
// phase is erased between the reading of it and the line.
func (c *Console) draw(w *progress.Work, now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := w.Phase()
	if p == nil {
		return
	}
	columns, _, err := term.GetSize(int(c.tty.Fd()))
	if err != nil || columns <= 0 {
		columns = maxWidth
	}
	line := clean.Text(phaseText(p, human.Age(now().Sub(p.Began))))
	c.drawn = true
	// The last column remains free: some terminals break the line when it is written.
	_, _ = io.WriteString(c.tty, "\r"+human.Short(line, columns-1)+"\x1b[K")
}

// erase removes the line. Its caller has the lock.
func (c *Console) erase() {
	if c.drawn {
		_, _ = io.WriteString(c.tty, "\r\x1b[K")
	}
	c.drawn = false
}

// phaseText is the line's text: what is done, how much of it, and the time so far.
func phaseText(p *progress.Phase, took string) string {
	amount := func(n int64) string {
		if p.Unit == progress.Bytes {
			return human.Size(n)
		}
		return human.Count(n, p.Unit)
	}
	switch done := p.Done(); {
	case p.Unit == "" || done+p.Total == 0:
		return p.What + ": " + took
	case p.Total <= done:
		return p.What + ": " + amount(done) + ", " + took
	case p.Unit == progress.Bytes:
		return p.What + ": " + amount(done) + " of " + amount(p.Total) + ", " + took
	default:
		return p.What + ": " + human.Thousands(done) + " of " + amount(p.Total) + ", " + took
	}
}
