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
	buf    []byte
	opened bool // a file was opened since the watches were set
	status string

	mu    sync.Mutex
	last  FilePosition // of the file that had the name last, while none is open
	old   []*tailed    // have lost the name, and may still be written to; oldest first
	cur   *tailed      // the file that has the name, nil where there is none
	state State
}

// NewFile returns a follower of one file. It opens nothing yet.
func NewFile(opts FileOptions) *File {
	return &File{opts: opts, interval: safety, watcher: newWatcher}
}

// Name returns the file's path.
func (f *File) Name() string { return f.opts.Path }

// Position implements Source: the place in the file that has the name, or had it last.
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
	if n := len(f.old); n > 0 {
		return f.old[n-1].position()
	}
	return f.last
}

// Run implements Source.
func (f *File) Run(ctx context.Context, from Position, lines chan<- parsers.Line) error {
	if cap(lines) != 0 {
		return ErrBuffered
	}
	if f.opts.Path == "" || strings.ContainsRune(f.opts.Path, 0) {
		return errBadPath
	}
	if n := len(from.Files); n > 0 {
		f.mu.Lock()
		f.last = from.Files[n-1]
		f.mu.Unlock()
	}
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
	lookErr := f.look()
	failed := false
	for _, t := range f.files() {
		again, err := f.drain(ctx, t, lines)
		switch {
		case errors.Is(err, errTruncated):
			f.mu.Lock()
			t.forget()
			f.mu.Unlock()
			again = true
		case ctx.Err() != nil:
			return false, err
		case err != nil:
			t.broken, failed = true, true
			lookErr = errors.Join(lookErr, err)
		}
		more = more || again
	}
	// What was opened is to be watched and then read once more; not what cannot be read, or it
	// would be opened for ever.
	if more || (f.opened && !failed) {
		return true, lookErr
	}
	return false, errors.Join(lookErr, f.retire(ctx, lines))
}

// look brings cur in line with what the name stands for now. A file that has lost its
// name stays open and is read on as an old one.
func (f *File) look() error {
	info, err := statRegular(f.opts.Path)
	if err != nil {
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, errNotRegular)
		if gone && f.cur != nil {
			f.setCurrent(nil)
		}
		return err
	}
	if f.cur != nil && f.cur.is(info) && !f.cur.broken {
		return nil
	}
	if i := slices.IndexFunc(f.old, func(t *tailed) bool { return t.is(info) }); i >= 0 {
		t := f.old[i] // It has got its name back.
		f.mu.Lock()
		f.old = append(f.old[:i:i], f.old[i+1:]...)
		f.mu.Unlock()
		f.setCurrent(t)
		return nil
	}
	t, opened, err := openTailed(f.opts.Path)
	if err != nil {
		if f.cur != nil && !f.cur.is(info) {
			f.setCurrent(nil)
		}
		return err
	}
	f.install(t, opened)
	return nil
}

// install makes t the current file. Where it is the one that was read before, opened again after a
// restart or an error, or copied and renamed by an editor, reading goes on.
func (f *File) install(t *tailed, info fileInfo) {
	f.opened = true
	f.mu.Lock()
	p := f.at()
	f.mu.Unlock()
	same := p.matches(t.ino, info.size, t.prefix)
	if same {
		t.next, t.done = p.Offset, p.Offset
	}
	if f.cur != nil && (same || f.cur.is(info)) {
		f.cur.close() // nothing is added to it under this inode but what t has
		f.mu.Lock()
		f.cur = nil
		f.mu.Unlock()
	}
	f.setCurrent(t)
}

// setCurrent moves the current file among the old ones and puts t in its place.
func (f *File) setCurrent(t *tailed) {
	if t != nil {
		f.remark(t)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != nil {
		f.cur.quiet = 0
		f.old = append(f.old, f.cur)
	}
	f.cur = t
}

// files returns all that is followed, the oldest first.
func (f *File) files() []*tailed {
	all := append([]*tailed(nil), f.old...)
	if f.cur != nil {
		all = append(all, f.cur)
	}
	return all
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
		f.mu.Lock()
		f.last = t.position()
		f.old = append(f.old[:i:i], f.old[i+1:]...)
		f.mu.Unlock()
		t.close()
	}
	return nil
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
