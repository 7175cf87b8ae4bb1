package source

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// fallback is how often a log is read without an event.
	fallback = time.Minute
	// polling is how often a log is read without inotify: an orphan should be reported within 5 s.
	polling = 2 * time.Second
	// gather is the delay after a wake-up in which the events of a busy writer accumulate.
	gather = 50 * time.Millisecond
)

// File follows one log file over rotations of any kind. It reads a renamed file until the next one has content:
// until then its writer may not have reopened the log.
type File struct {
	path     string
	log      *slog.Logger
	now      func() time.Time
	interval time.Duration // of the timer; tests use a shorter one
	watcher  func() (*watcher, error)

	// Used by Run's goroutine only.
	polls  bool // there is no inotify
	opened bool // a file was opened
	status string

	mu    sync.Mutex
	cur   *tailed      // the open file, or nil
	last  FilePosition // in the last open file, if cur is nil
	state State
}

// NewFile returns a follower of the file at path. It opens nothing. now is a clock that does not leap (time.Now).
func NewFile(path string, now func() time.Time, log *slog.Logger) *File {
	return &File{path: path, log: log, now: now, interval: fallback, watcher: newWatcher}
}

// Name returns the file's path.
func (f *File) Name() string { return f.path }

// Position implements Source: the place in the open file, or in the last one.
func (f *File) Position() Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.last
	if f.cur != nil {
		p = f.cur.position()
	}
	if p == (FilePosition{}) {
		return Position{}
	}
	return Position{Files: []FilePosition{p}}
}

// State implements Source.
func (f *File) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Run implements Source.
func (f *File) Run(ctx context.Context, from Position, lines chan<- parsers.Line) error {
	if cap(lines) != 0 {
		return ErrBuffered
	}
	if f.path == "" || strings.ContainsRune(f.path, 0) {
		return errBadPath
	}
	if n := len(from.Files); n > 0 {
		f.mu.Lock()
		f.last = from.Files[n-1]
		f.mu.Unlock()
	}
	var w *watcher
	defer func() {
		f.leave()
		if w != nil {
			w.close()
		}
	}()
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		w = f.arm(ctx, w, ticker)
		more, err := f.step(ctx, lines)
		if ctx.Err() == nil {
			f.mu.Lock()
			f.state = State{Reached: f.state.Reached || !more && err == nil, Err: err}
			f.mu.Unlock()
		}
		switch classify(ctx, err) {
		case classShutdown:
			return nil
		case classHopeless:
			return err
		case classRetry:
			f.report(ctx, err)
		}
		if !more && !f.wait(ctx, w, ticker) {
			return nil
		}
	}
}

// wait waits for an event or the timer, and returns false when ctx has ended.
func (f *File) wait(ctx context.Context, w *watcher, ticker *time.Ticker) bool {
	var wake chan struct{}
	if w != nil {
		wake = w.wake
		if !pause(ctx, gather) {
			return false
		}
		if f.cur != nil {
			f.cur.markEnd()
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-ticker.C:
	}
	return true
}

// arm sets the watches before the file is read, so that any later change wakes the follower.
// Without inotify the follower polls, and arm tries again each time.
func (f *File) arm(ctx context.Context, w *watcher, ticker *time.Ticker) *watcher {
	var err error
	if w == nil {
		w, err = f.watcher()
	}
	// If the set of watches is another one afterwards, a directory or link has changed before it was watched.
	for wanted, tries := f.watches(), 0; err == nil && tries < 16; tries++ {
		err = w.watch(wanted)
		now := f.watches()
		if slices.Equal(wanted, now) {
			break
		}
		wanted = now
	}
	if polls := err != nil; polls != f.polls {
		f.polls = polls
		ticker.Reset(f.period())
		if polls {
			f.log.WarnContext(ctx, "no inotify for this log, reading it every two seconds",
				slog.String("file", f.path), slog.Any("error", err))
		}
	}
	if err != nil && w != nil {
		w.close()
		return nil
	}
	return w
}

// period is the time between two readings without an event.
func (f *File) period() time.Duration {
	if f.polls {
		return min(f.interval, polling)
	}
	return f.interval
}

// step reads the open file to its end, and then goes on to the next file with the name. more reports whether there is
// more to read at once.
func (f *File) step(ctx context.Context, lines chan<- parsers.Line) (more bool, err error) {
	// Look up the name before the read: a writer that has begun the next file does not write to this one any more.
	info, nameErr := os.Stat(f.path)
	more, err = f.read(ctx, lines)
	switch {
	case more || ctx.Err() != nil:
		return more, err
	case err != nil: // retried at the next wake-up
		return false, errors.Join(nameErr, err)
	case nameErr != nil:
		if f.cur != nil && f.cur.deleted() {
			f.leave()
		}
		return false, nameErr
	case f.cur != nil && (os.SameFile(f.cur.info, info) || info.Size() == 0 && !f.cur.deleted()):
		return false, nil
	}
	if err := f.open(); err != nil {
		return false, err
	}
	_, err = f.read(ctx, lines)
	return f.cur != nil, err // read again once it is watched
}

// read reads the open file to its end, and closes it after an error. It rewinds a truncated file.
func (f *File) read(ctx context.Context, lines chan<- parsers.Line) (more bool, err error) {
	if f.cur == nil {
		return false, nil
	}
	more, err = f.drain(ctx, f.cur, lines)
	switch {
	case err == nil || ctx.Err() != nil:
		return more, err
	case errors.Is(err, errTruncated):
		f.cur.rewind()
		return true, nil
	}
	f.leave()
	return false, err
}

// open opens the file that has the name. It continues at the last position if that is in this file, after a restart or
// an error, or if an editor has copied the file.
func (f *File) open() error {
	t, err := openTailed(f.path, f.now)
	f.leave()
	if err != nil {
		return err
	}
	if f.last.matches(t) {
		t.begin(f.last.Offset)
	}
	t.recent.settled, f.opened = f.opened, true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cur = t
	return nil
}

// leave closes the open file.
func (f *File) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != nil {
		f.last = f.cur.position()
		f.cur.close()
		f.cur = nil
	}
}

// report logs an error of the file, once per change.
func (f *File) report(ctx context.Context, err error) {
	missing := errors.Is(err, fs.ErrNotExist)
	status := ""
	switch {
	case missing:
		status = unix.ENOENT.Error() // the same for stat and open
	case err != nil:
		status = err.Error()
	}
	if status == f.status {
		return
	}
	f.status = status
	switch {
	case err == nil:
		f.log.InfoContext(ctx, "following the log file", slog.String("file", f.path))
	case missing:
		// Not a warning: a distribution has only one of the usual names.
		f.log.InfoContext(ctx, "waiting for the log file to appear", slog.String("file", f.path))
	default:
		f.log.WarnContext(ctx, "cannot follow the log file yet", slog.String("file", f.path), slog.Any("error", err))
	}
}
