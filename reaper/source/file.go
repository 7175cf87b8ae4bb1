package source

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// safety is the net below inotify: how often names and ends are looked at without an event.
	safety = time.Minute
	// polling replaces it where inotify cannot be had: an orphan is to be seen within 5 s.
	polling = 2 * time.Second
	// gather lets a busy writer's events pile up, so that one wake-up reads them all.
	gather = 50 * time.Millisecond
	// maxOld is how many files are followed besides the one that has the name.
	maxOld = 8
)

// FileOptions say which file is followed.
type FileOptions struct {
	Path   string       // the log's name
	Logger *slog.Logger // what the operator should know
}

// File follows one log file over rotations of any kind.
type File struct {
	opts     FileOptions
	interval time.Duration // of the timer; tests wait less
	watcher  func() (*watcher, error)

	// Of Run's goroutine only.
	buf     []byte
	resumed bool      // want has been dealt with
	opened  bool      // a file was opened since the watches were set
	dirTime time.Time // when names last changed
	scans   int       // how often rotated names are still to be looked at
	status  string
	newest  time.Time // youngest modification time of what was read

	mu     sync.Mutex
	want   []FilePosition // of the last run, not yet found
	closed []FilePosition // read to their end
	// horizon is newest before this step, and before the names were looked at for the last
	// time: a rotated file that is not older may be unread.
	horizon time.Time
	old     []*tailed // oldest first
	cur     *tailed   // the file that has the name, nil where there is none
	state   State
}

// NewFile returns a follower of one file. It opens nothing yet.
func NewFile(opts FileOptions) *File {
	return &File{opts: opts, interval: safety, watcher: newWatcher}
}

// Name returns the file's path.
func (f *File) Name() string { return f.opts.Path }

// Position implements Source.
func (f *File) Position() Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Position{Modified: f.horizon}
	p.Files = append(append(p.Files, f.want...), f.closed...)
	for _, t := range f.old {
		p.Files = append(p.Files, t.position())
	}
	if f.cur != nil {
		p.Files = append(p.Files, f.cur.position())
	}
	return p
}

// Run implements Source.
func (f *File) Run(ctx context.Context, from Position, lines chan<- parsers.Line) error {
	if cap(lines) != 0 {
		return ErrBuffered
	}
	if f.opts.Path == "" || strings.ContainsRune(f.opts.Path, 0) {
		return errBadPath
	}
	f.mu.Lock()
	f.want, f.horizon = from.Files, from.Modified
	f.mu.Unlock()
	f.resumed, f.newest = len(from.Files) == 0, from.Modified
	defer f.closeAll()

	var w *watcher
	defer func() {
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
			f.setState(more, err)
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
		interval := f.interval
		if w == nil {
			interval = min(interval, polling)
		}
		for _, t := range f.old {
			t.quiet += interval
		}
	}
	return true
}

// arm sets the watches before the names are looked at, so that whatever happens after the
// look wakes us. Without inotify it polls, and tries again each time.
func (f *File) arm(ctx context.Context, w *watcher, ticker *time.Ticker) *watcher {
	had := w != nil
	f.opened = false
	var err error
	if w == nil {
		w, err = f.watcher()
	}
	// A directory that is made, or a link that is changed, just before its watch is there goes
	// unnoticed: what is to be watched must still be the same afterwards.
	for wanted, tries := f.watches(), 0; err == nil && tries < 16; tries++ {
		err = w.set(wanted)
		now := f.watches()
		if slices.Equal(wanted, now) {
			break
		}
		wanted = now
	}
	if err == nil {
		if !had {
			ticker.Reset(f.interval)
		}
		return w
	}
	if w != nil {
		w.close()
	}
	ticker.Reset(min(f.interval, polling))
	if had || f.buf == nil {
		f.opts.Logger.WarnContext(ctx, "no inotify for this log, reading it every two seconds",
			slog.String("file", f.opts.Path), slog.Any("error", err))
	}
	return nil
}

// step looks at the name once and reads every file to its end. more says that there is
// more to read at once.
func (f *File) step(ctx context.Context, lines chan<- parsers.Line) (more bool, err error) {
	if f.resumed && f.scans == 0 {
		f.mu.Lock()
		f.horizon = f.newest
		f.mu.Unlock()
	}
	lookErr := f.look()
	failed := false
	if lookErr == nil || errors.Is(lookErr, fs.ErrNotExist) || errors.Is(lookErr, errNotRegular) {
		f.findRotated()
	}
	f.noteDirectory()
	if f.resumed && f.scans > 0 {
		f.scans--
		f.addMissed()
	}
	for _, t := range f.files() {
		f.note(t) // Before as well: a crash in between must not make old files look new.
		again, err := f.drain(ctx, t, lines)
		switch {
		case errors.Is(err, errTruncated):
			f.truncated(t)
			again = true
		case ctx.Err() != nil:
			return false, err
		case err != nil:
			t.broken, failed = true, true
			lookErr = errors.Join(lookErr, err)
		}
		more = more || again
		f.note(t)
	}
	// What was opened is to be watched and then read once more; not what cannot be read, or it
	// would be opened for ever.
	if more || (f.opened && !failed) {
		return true, lookErr
	}
	return false, errors.Join(lookErr, f.retire(ctx, lines))
}

// files returns all that is followed, the oldest first.
func (f *File) files() []*tailed {
	all := append([]*tailed(nil), f.old...)
	if f.cur != nil {
		all = append(all, f.cur)
	}
	return all
}

// note remembers how young the file's content is.
func (f *File) note(t *tailed) {
	info, err := t.stat()
	if err != nil || !info.mtime.After(f.newest) {
		return
	}
	f.newest = info.mtime
}

// retire closes the old files that have been quiet for long, or are too many. What
// stands at their end without a newline never gets one.
func (f *File) retire(ctx context.Context, lines chan<- parsers.Line) error {
	for i := 0; i < len(f.old); {
		t := f.old[i]
		if t.quiet < 2*f.interval && len(f.old) <= maxOld {
			i++
			continue
		}
		if len(t.carry) > 0 {
			if err := f.emit(ctx, t, t.carry, unknownStart, t.next, lines); err != nil {
				return err
			}
		}
		f.remember(t)
		f.mu.Lock()
		f.old = append(f.old[:i:i], f.old[i+1:]...)
		f.mu.Unlock()
		t.close()
	}
	return nil
}

// remember keeps the last closed files in mind, so that their names beside the log are
// not taken for something new.
func (f *File) remember(t *tailed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = append(f.closed, t.position())
	if len(f.closed) > maxOld {
		f.closed = append(f.closed[:0:0], f.closed[1:]...)
	}
}

func (f *File) closeAll() {
	for _, t := range f.files() {
		t.close()
	}
}

// report logs what is wrong with the file, once per change.
func (f *File) report(ctx context.Context, err error) {
	status := ""
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT):
		status = unix.ENOENT.Error() // From stat or open, which is the same to the reader.
	default:
		status = err.Error()
	}
	if status == f.status {
		return
	}
	f.status = status
	switch {
	case err == nil:
		f.opts.Logger.InfoContext(ctx, "following the log file", slog.String("file", f.opts.Path))
	case errors.Is(err, unix.ENOENT):
		// Of the usual names a distribution has one.
		f.opts.Logger.InfoContext(ctx, "waiting for the log file to appear", slog.String("file", f.opts.Path))
	default:
		f.opts.Logger.WarnContext(ctx, "cannot follow the log file yet", slog.String("file", f.opts.Path), slog.Any("error", err))
	}
}
