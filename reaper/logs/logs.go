package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Config names what to follow. The zero value follows nothing.
type Config struct {
	// Units are the units of journald whose entries are read, none to read no journal.
	Units []string
	// Journalctl is the program that reads them: FindJournalctl.
	Journalctl Journalctl
	Files      []File
	// Recent also delivers what is there: five minutes of the journal, 4 MiB of each file.
	Recent bool
	Now    func() time.Time // the clock
	Log    *slog.Logger
}

// File is a log file.
type File struct {
	Path string
	// Syslog is true if a syslog daemon writes it.
	Syslog bool
}

// Source is the state of one source, for display.
type Source struct {
	Name string `json:"name"` // "journald", or the path of a file
	// Lines counts the lines that were read, and Last is when the last of them was; zero if there was none.
	Lines int64     `json:"lines"`
	Last  time.Time `json:"last,omitzero"`
	Err   string    `json:"error,omitempty"` // why it cannot be read now, "" if it can
}

// Follower follows the sources of a Config until its context ends.
type Follower struct {
	lines chan parsers.Line
	cfg   Config

	mu      sync.Mutex
	sources map[string]*Source
	done    sync.WaitGroup
}

// Follow starts to follow the sources. A source that fails is tried again; Sources has the error. The lines end when ctx
// does and all sources have ended.
func Follow(ctx context.Context, cfg Config) *Follower {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := &Follower{cfg: cfg, lines: make(chan parsers.Line, 1024), sources: map[string]*Source{}}
	if len(cfg.Units) > 0 {
		f.start(ctx, "journald", f.journal)
	}
	for _, file := range cfg.Files {
		f.start(ctx, file.Path, func(ctx context.Context) error { return f.file(ctx, file) })
	}
	go func() {
		f.done.Wait()
		close(f.lines)
	}()
	return f
}

// Lines are the lines that have the words of a report. Other lines are read for what they mean for those after them.
func (f *Follower) Lines() <-chan parsers.Line { return f.lines }

// Sources returns the state of all sources, by name.
func (f *Follower) Sources() []Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	sources := make([]Source, 0, len(f.sources))
	for _, s := range f.sources {
		sources = append(sources, *s)
	}
	slices.SortFunc(sources, func(a, b Source) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
	return sources
}

// The times between two attempts to read a source that fails.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// start runs a source until ctx ends, and again after each failure.
func (f *Follower) start(ctx context.Context, name string, run func(context.Context) error) {
	f.sources[name] = &Source{Name: name}
	f.done.Go(func() {
		wait := firstRetry
		for ctx.Err() == nil {
			began := f.cfg.Now()
			err := run(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("it has ended")
			}
			f.failed(name, err)
			if f.cfg.Now().Sub(began) > lastRetry {
				wait = firstRetry
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(2*wait, lastRetry)
		}
	})
}

// failed notes why a source cannot be read, and logs it once per change.
func (f *Follower) failed(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sources[name]; s.Err != err.Error() {
		s.Err = err.Error()
		f.cfg.Log.Warn("cannot read a log; trying again", slog.String("source", name), slog.Any("error", err))
	}
}

// send counts a line, and delivers it if it has the words of a report.
func (f *Follower) send(ctx context.Context, name string, l parsers.Line) {
	f.mu.Lock()
	s := f.sources[name]
	s.Lines, s.Last, s.Err = s.Lines+1, f.cfg.Now(), ""
	f.mu.Unlock()
	if !parsers.Interesting(l.Text) {
		return
	}
	select {
	case f.lines <- l:
	case <-ctx.Done():
	}
}

// identify returns which file a name leads to.
func identify(path string) (parsers.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return parsers.File{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return parsers.File{}, fmt.Errorf("cannot follow %s: it is no regular file", path)
	}
	return parsers.File{Dev: st.Dev, Ino: st.Ino}, nil
}
