package term

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Progress is one line on a terminal that says what goes on. Elsewhere it says nothing.
// It is used by one goroutine.
type Progress struct {
	w     io.Writer // nil: no terminal
	width int
	shown string
}

// NewProgress writes to w where that is a terminal; env is the environment.
func NewProgress(w io.Writer, env func(string) string) *Progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || env("TERM") == "dumb" {
		return &Progress{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = maxWidth
	}
	return &Progress{w: f, width: width}
}

// Show replaces the line. A text that is shown already is not written again.
func (p *Progress) Show(format string, args ...any) {
	if p.w == nil {
		return
	}
	// The last column stays free: some terminals break the line when it is written.
	text := human.Short(clean.Text(fmt.Sprintf(format, args...)), p.width-1)
	if text == p.shown {
		return
	}
	p.shown = text
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", text) // A line that nobody can read is no failure.
}

// Clear takes the line away, before other text and at the end.
func (p *Progress) Clear() {
	if p.w == nil || p.shown == "" {
		return
	}
	p.shown = ""
	_, _ = io.WriteString(p.w, "\r\x1b[K")
}
