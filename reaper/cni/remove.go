package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/alexflint/go-filemutex"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const (
	// lockTime is how long one sweep tries to get the lock of one network. The plugin holds it for milliseconds.
	lockTime  = 2 * time.Second
	lockPause = 2 * time.Millisecond
)

var (
	errLocked = errors.New("host-local's lock is held by another process, which lslocks shows")
	errNoLock = errors.New("host-local's lock is no plain file")
)

// removal is the removal of the stale files of one sweep.
type removal struct {
	*Sweeper
	*found

	taken    map[string]judge.Tally
	failures int
	first    error // of them
	unsure   bool  // a call has failed that may have removed its file all the same
}

// remove archives the files and removes those that are in the archive.
func (s *Sweeper) remove(ctx context.Context, f *found, stale []file, now judge.Instant, write func(...judge.Event) bool) {
	r := &removal{Sweeper: s, found: f, taken: map[string]judge.Tally{}}
	slices.SortFunc(stale, func(a, b file) int { return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.seen.Ino, b.seen.Ino)) })
	a, err := s.createArchive(now)
	if err == nil {
		stale, err = r.archive(ctx, a, stale)
	}
	if err != nil {
		f.problem(fmt.Errorf("cannot archive the stale CNI files, none of which was removed: %w", err))
		f.status.Operator = ctx.Err() == nil
	}
	e := judge.Event{Kind: judge.EventCNIRemoving, At: now}
	if a != nil {
		e.Archive, e.Undo = a.path, undo(a.path)
	}
	if err != nil || len(stale) == 0 || !write(e) {
		if a != nil {
			f.problem(s.drop(a.path))
		}
		return
	}
	f.status.Archive, f.status.Undo = e.Archive, e.Undo
	r.unlink(ctx, stale)
	if f.status.Removed == 0 && !r.unsure { // each sweep would leave one for files that cannot be removed
		f.problem(s.drop(a.path))
		e.Archive, e.Undo, f.status.Archive, f.status.Undo = "", "", "", ""
	}
	e.Kind, e.Taken = judge.EventCNIRemoved, r.taken
	if r.failures > 0 {
		err := fmt.Errorf("cannot remove %d CNI files, the first: %w", r.failures, r.first)
		f.problem(err)
		e.Err = err.Error()
	}
	write(e)
}

// archive writes the files and returns those that are archived. With an error nothing may be removed.
func (r *removal) archive(ctx context.Context, a *archive, stale []file) ([]file, error) {
	written := stale[:0]
	err := r.each(stale, func(dir *fdpath.Dir, x *file) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text, st, err := dir.ReadSeen(r.name(x), x.seen, mostCache)
		if err != nil {
			return nil //nolint:nilerr // it is gone or not the file that was judged: the next sweep judges what is there
		}
		written = append(written, *x)
		return a.add(r.path(x), &st, text)
	})
	return written, errors.Join(err, r.finish(a))
}

// each calls step for each file, with its directory open. What cannot be opened is left out.
func (r *removal) each(files []file, step func(dir *fdpath.Dir, x *file) error) error {
	var dir *fdpath.Dir
	defer func() { dir.Close() }()
	at, place := -1, ""
	for i := range files {
		x := &files[i]
		if int(x.dir) != at {
			dir.Close()
			at, place = int(x.dir), r.dirs[x.dir].path
			r.enter(place)
			var err error
			if dir, err = r.dirs[at].open(r.Sweeper.open); err != nil && !fdpath.Gone(err) {
				r.failed(x, err)
			}
		}
		if dir == nil {
			continue
		}
		r.enter(place)
		if err := step(dir, x); err != nil {
			return err
		}
	}
	return nil
}

// unlink removes the archived files. Nothing is synced: a file that a power cut brings back is stale again.
func (r *removal) unlink(ctx context.Context, archived []file) {
	var l *lock
	at := -1
	err := r.each(archived, func(dir *fdpath.Dir, x *file) error {
		if int(x.dir) != at {
			l.close()
			l, at = nil, int(x.dir)
			if r.dirs[at].kind == address {
				l = openLock(dir)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := l.acquire(ctx)
		if err == nil {
			err = r.unlinkOne(dir, x)
			l.release()
		}
		if err != nil && !fdpath.Gone(err) {
			r.failed(x, err)
		}
		return nil
	})
	l.close()
	r.problem(err)
}

// unlinkOne removes a file if it is the one that was judged. The ID of a sandbox is used once, so that a file of a dead one is
// written by no program; host-local's addresses are, and its lock is held.
func (r *removal) unlinkOne(dir *fdpath.Dir, x *file) error {
	name := r.name(x)
	st, err := dir.StatName(name)
	if err != nil {
		return err
	}
	if !x.seen.Is(&st) {
		return fdpath.ErrChanged
	}
	if err := r.changes.unlink(dir, name); err != nil {
		r.unsure = r.unsure || !fdpath.Is(err, unix.EPERM, unix.EACCES, unix.EROFS)
		return err
	}
	d := &r.dirs[x.dir]
	t := r.taken[kindNames[d.kind]]
	t.Entries, t.Bytes = t.Entries+1, t.Bytes+fdpath.Size(&st)
	r.taken[kindNames[d.kind]] = t
	r.status.Removed++
	r.status.Stale--
	r.status.Files--
	r.status.Bytes -= fdpath.Size(&st)
	if d.kind == address {
		r.tally(d, r.texts[x.last], func(n *counts) { n.used, n.stale = n.used-1, n.stale-1 })
	}
	return nil
}

func (r *removal) failed(x *file, err error) {
	r.failures++
	if r.first == nil {
		r.first = fmt.Errorf("%s: %w", r.path(x), err)
	}
	if !errors.Is(err, fdpath.ErrChanged) && !errors.Is(err, errLocked) {
		r.status.Operator = true
	}
	r.keep(r.path(x), err.Error())
}

// lock is host-local's lock of one network: NETWORK/lock, which the plugin's FileLock locks by go-filemutex, too. It is not made:
// without it no host-local since 0.8.0 has given out an address here. A nil lock is always held.
type lock struct {
	handle *fdpath.Dir
	mutex  *filemutex.FileMutex
	err    error // why it cannot be acquired; it is not tried again
}

func openLock(dir *fdpath.Dir) *lock {
	handle, err := dir.Handle("lock")
	if fdpath.Gone(err) {
		return nil
	}
	l := &lock{handle: handle, err: err}
	if err != nil {
		return l
	}
	st, err := handle.Stat()
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNoLock
	}
	if err == nil { // the file of the handle, whatever has its name by now
		l.mutex, err = filemutex.New("/proc/self/fd/" + strconv.Itoa(handle.FD()))
	}
	l.err = err
	return l
}

// acquire tries for lockTime.
func (l *lock) acquire(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if l.err != nil {
		return l.err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	ticker := time.NewTicker(lockPause)
	defer ticker.Stop()
	for {
		err := l.mutex.TryLock()
		if err == nil {
			return nil
		}
		if !errors.Is(err, filemutex.AlreadyLocked) {
			l.err = err
			return err
		}
		select {
		case <-ctx.Done():
			l.err = errLocked
			return errLocked
		case <-ticker.C:
		}
	}
}

func (l *lock) release() {
	if l != nil {
		_ = l.mutex.Unlock() // closing it unlocks it, too
	}
}

func (l *lock) close() {
	if l == nil {
		return
	}
	if l.mutex != nil {
		_ = l.mutex.Close()
	}
	l.handle.Close()
}
