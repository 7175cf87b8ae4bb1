package ui

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Console owns what a command writes where a person sits: the output, notes and records, and one line
// below them that says how far the work is. Whoever else writes takes that line away first, and it
// is drawn again a moment later. Where stderr is no terminal, or one that knows no escapes
// (TERM=dumb), nothing is drawn and the streams are as they were.
//
// The cursor always rests below the line: what does not go through here, as the shell's word on a
// process that was killed, begins a line of its own.
type Console struct {
	stdout, stderr io.Writer

	tty  *os.File // where the line is drawn, nil where none is
	mu   sync.Mutex
	line string // that stands there now
	// open is true where a text ended within its line, as a question does. Nothing is drawn then.
	open bool
	// over is true once a pipe was written to: what reads from it may be writing to this terminal.
	over bool
}

// NewConsole takes a command's streams; env is the environment.
func NewConsole(stdout, stderr io.Writer, env func(string) string) *Console {
	c := &Console{stdout: stdout, stderr: stderr}
	tty, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) || env("TERM") == "dumb" {
		return c
	}
	c.tty, c.stderr = tty, stream{tty, c}
	if f, ok := stdout.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			c.stdout = pipe{f, c}
		} else if term.IsTerminal(int(f.Fd())) {
			c.stdout = stream{f, c}
		}
	}
	return c
}

// Stdout returns the command's output.
func (c *Console) Stdout() io.Writer { return c.stdout }

// Stderr returns the stream for notes, records and errors.
func (c *Console) Stderr() io.Writer { return c.stderr }

// Answered says that the person has ended the line of a question.
func (c *Console) Answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = false
}

// stream is a terminal. It has no more methods than these: os.File's WriteString would go past the line.
type stream struct {
	f *os.File
	c *Console
}

// Fd tells a printer that this is a terminal.
func (s stream) Fd() uintptr { return s.f.Fd() }

// Write takes the line away and writes.
func (s stream) Write(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.clear()
	if len(b) > 0 {
		s.c.open = b[len(b)-1] != '\n'
	}
	return s.f.Write(b)
}

// pipe is an output that another program reads.
type pipe struct {
	f *os.File
	c *Console
}

// Write takes the line away for good and writes. The reader may take its time: nothing waits for it.
func (p pipe) Write(b []byte) (int, error) {
	p.c.mu.Lock()
	p.c.clear()
	p.c.over = true
	p.c.mu.Unlock()
	return p.f.Write(b)
}

// draw replaces the line. It asks for the width each time: the window may have changed.
func (c *Console) draw(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open || c.over {
		return
	}
	columns, _, err := term.GetSize(int(c.tty.Fd()))
	if err != nil || columns <= 0 {
		columns = maxWidth
	}
	// The last column stays free: some terminals break the line when it is written.
	line := human.Short(clean.Text(text), columns-1)
	if line == c.line {
		return
	}
	up := "\x1b[A\r"
	if c.line == "" {
		up = ""
	}
	c.line = line
	_, _ = io.WriteString(c.tty, up+line+"\x1b[K\n") // a line that nobody can read is no failure
}

// clear takes the line away, with what was typed below it. Its caller has the lock.
func (c *Console) clear() {
	if c.line == "" {
		return
	}
	c.line = ""
	_, _ = io.WriteString(c.tty, "\x1b[A\r\x1b[J") // as above
}

func (c *Console) erase() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}
