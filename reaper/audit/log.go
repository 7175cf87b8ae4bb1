package audit

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewLog returns the logger of the program's own messages to stderr. If journald reads stderr, a line begins with its
// priority, for journalctl -p (sd-daemon(3)), and has no time, which journald adds.
func NewLog(stderr io.Writer, level slog.Leveler) *slog.Logger {
	journald, err := journal.StderrIsJournalStream()
	if stderr != io.Writer(os.Stderr) || err != nil || !journald {
		return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(newPrioritized(stderr, level))
}

// prioritized has a text handler for each priority.
type prioritized map[journal.Priority]slog.Handler

func newPrioritized(w io.Writer, level slog.Leveler) prioritized {
	p := prioritized{}
	for _, priority := range []journal.Priority{journal.PriErr, journal.PriWarning, journal.PriInfo, journal.PriDebug} {
		p[priority] = slog.NewTextHandler(prefixed{w, priority}, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})
	}
	return p
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

func (p prioritized) of(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return p[journal.PriErr]
	case level >= slog.LevelWarn:
		return p[journal.PriWarning]
	case level >= slog.LevelInfo:
		return p[journal.PriInfo]
	}
	return p[journal.PriDebug]
}

// Enabled implements [slog.Handler].
func (p prioritized) Enabled(ctx context.Context, level slog.Level) bool {
	return p.of(level).Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (p prioritized) Handle(ctx context.Context, r slog.Record) error {
	return p.of(r.Level).Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (p prioritized) WithAttrs(attrs []slog.Attr) slog.Handler {
	return p.each(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (p prioritized) WithGroup(name string) slog.Handler {
	return p.each(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (p prioritized) each(with func(slog.Handler) slog.Handler) slog.Handler {
	next := prioritized{}
	for priority, h := range p {
		next[priority] = with(h)
	}
	return next
}

// prefixed writes a priority before each write: a handler writes a line at once.
type prefixed struct {
	to       io.Writer
	priority journal.Priority
}

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.to.Write(append([]byte("<"+strconv.Itoa(int(p.priority))+">"), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
