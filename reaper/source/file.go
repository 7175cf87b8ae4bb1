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
	// safety is how often a log is read without an event.
	safety = time.Minute
	// polling is the same where inotify is not available: an orphan is to be seen within 5 s.
	polling = 2 * time.Second
	// gather lets a busy writer's events accumulate, so that one wake-up reads them all.
	gather = 50 * time.Millisecond
)

// File follows one log file over rotations of any kind. A file that lost the name is read until the next one has
// content: until then its writer may not have reopened the log.
type File struct {
	path     string
	log      *slog.Logger
	interval time.Duration // of the timer; tests use a shorter one
	watcher  func() (*watcher, error)

	// Used by Run's goroutine only.
	polls  bool // there is no inotify
	status string

	mu    sync.Mutex
	cur   *tailed      // the open file, nil where there is none
	last  FilePosition // where the file that was open last was left, while cur is nil
	state State
}

// NewFile returns a follower of the file at path. It opens nothing yet.
func NewFile(path string, log *slog.Logger) *File {
	return &File{path: path, log: log, interval: safety, watcher: newWatcher}
}

// Name returns the file's path.
func (f *File) Name() string { return f.path }

// Position implements Source: the place in the file that is open, or was open last.
func (f *File) Position() Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.at(); p != (FilePosition{}) {
		return Position{Files: []FilePosition{p}}
	}
	return Position{}
}

// at returns the place for Position; File.mu is held.
func (f *File) at() FilePosition {
	if f.cur != nil {
		return f.cur.position()
	}
	return f.last
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

// wait returns when there may be something to read, and false when ctx has ended.
func (f *File) wait(ctx context.Context, w *watcher, ticker *time.Ticker) bool {
	var wake chan struct{}
	if w != nil {
		wake = w.wake
		if !pause(ctx, gather) {
			return false
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

// arm sets the watches before the name is read, so that whatever happens after that wakes the
// follower. Without inotify the follower polls, and arm tries again each time.
func (f *File) arm(ctx context.Context, w *watcher, ticker *time.Ticker) *watcher {
	var err error
	if w == nil {
		w, err = f.watcher()
	}
	// A directory that is created, or a link that is changed, just before its watch is set goes unnoticed, so
	// the set of watches must be the same afterwards.
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

// step reads the open file to its end, and then goes on to the one that has the name now. more reports whether there is
// more to read at once.
func (f *File) step(ctx context.Context, lines chan<- parsers.Line) (more bool, err error) {
	// The name is looked up first: a writer that has begun the next file writes no more to this one.
	info, nameErr := os.Stat(f.path)
	more, err = f.read(ctx, lines)
	switch {
	case more || ctx.Err() != nil:
		return more, err
	case err != nil: // it is opened again at the next wake-up
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
	return f.cur != nil, err // it is watched, and then read once more
}

// read reads the open file to its end, and closes it where that fails. A truncated file is read again from its
// beginning.
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

// open opens the file that has the name. It begins where it was left if it is the file of before, after a restart or
// an error, or an editor's copy of that.
func (f *File) open() error {
	t, err := openTailed(f.path)
	f.leave()
	if err != nil {
		return err
	}
	if f.last.matches(t) {
		t.begin(f.last.Offset)
	}
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
		status = unix.ENOENT.Error() // from stat or open, which is the same to the operator
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
		// A distribution has one of the usual names.
		f.log.InfoContext(ctx, "waiting for the log file to appear", slog.String("file", f.path))
	default:
		f.log.WarnContext(ctx, "cannot follow the log file yet", slog.String("file", f.path), slog.Any("error", err))
	}
}
