package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// What wakes a file's follower. IN_ATTRIB comes with the last unlink of an open file,
// and with a chmod that makes a file readable.
const (
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF
	dirEvents  = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB |
		unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR
)

// watch is something to be woken by: a file (name empty) or one name in a directory.
type watch struct {
	path string
	name string
	ino  uint64 // of the directory when it was looked up, to see that it is replaced
}

// watcher turns inotify events into wake-ups. Until a wake-up is received no event is read, so that
// the kernel merges those of a busy file into one.
type watcher struct {
	file *os.File
	fd   int
	wake chan struct{}
	done chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	names map[int32][]string // by watch descriptor; the empty name is the watched thing itself
}

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot make an inotify instance: %w", err)
	}
	w := &watcher{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd,
		wake: make(chan struct{}), done: make(chan struct{}), names: map[int32][]string{},
	}
	w.wg.Go(w.run)
	return w, nil
}

// close ends the watcher and waits for its goroutine.
func (w *watcher) close() {
	close(w.done)
	_ = w.file.Close() // Nothing is written to it.
	w.wg.Wait()
}

func (w *watcher) run() {
	buf := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return // Closed; the timer still wakes the follower if it is anything else.
		}
		if !w.concerns(buf[:n]) {
			continue
		}
		select {
		case w.wake <- struct{}{}:
		case <-w.done:
			return
		}
	}
}

// concerns reports whether one of the events is about something watched. The layout of
// an event, from inotify(7):
//
//	int wd; uint32_t mask; uint32_t cookie; uint32_t len; char name[]; (padded with NUL)
func (w *watcher) concerns(buf []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := int(binary.NativeEndian.Uint32(buf[12:]))
		if size > len(buf)-unix.SizeofInotifyEvent {
			return true // Cannot be; look rather than miss something.
		}
		name := unix.ByteSliceToString(buf[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size])
		buf = buf[unix.SizeofInotifyEvent+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			return true
		}
		// Of a directory its own removal counts, of what is in it the wanted names.
		if names, ok := w.names[wd]; ok && (name == "" || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

// set makes exactly these watches. Adding one that is there changes nothing, so that it
// is safe to call it each time. What does not exist is left out; the error is for what
// leaves the follower without wake-ups: no watches left (ENOSPC), no memory.
func (w *watcher) set(watches []watch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make(map[int32][]string, len(watches))
	var failed error
	for _, v := range watches {
		mask := uint32(fileEvents)
		if v.name != "" {
			mask = dirEvents
		}
		wd, err := unix.InotifyAddWatch(w.fd, v.path, mask)
		switch {
		case err == nil:
			names[int32(wd)] = append(names[int32(wd)], v.name)
		case !unwatchable(err):
			failed = fmt.Errorf("cannot watch %q: %w", v.path, err)
		}
	}
	for wd := range w.names {
		if _, ok := names[wd]; !ok {
			// EINVAL is usual: the kernel has removed the watch along with the file.
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
		}
	}
	w.names = names
	return failed
}

// unwatchable reports whether the thing itself is not there to be watched, which the
// follower finds and reports on its own.
func unwatchable(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP)
}

// maxLinks is the kernel's own bound on symlinks in one path (path_resolution(7)).
const maxLinks = 40

// watches returns what must wake the follower: each open file by its descriptor, and the
// directory of the name and of every link on the way to the file. Where such a
// directory is missing, the nearest one above that exists.
func (f *File) watches() []watch {
	all := make([]watch, 0, 4)
	for _, t := range []*tailed{f.old, f.cur} {
		if t != nil {
			all = append(all, watch{path: descriptor(t.file)})
		}
	}
	path := f.path
	for range maxLinks {
		dir, name := filepath.Dir(path), filepath.Base(path)
		var st unix.Stat_t
		for {
			if err := unix.Stat(dir, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR || dir == filepath.Dir(dir) {
				break
			}
			dir, name = filepath.Dir(dir), filepath.Base(dir)
		}
		all = append(all, watch{path: dir, name: name, ino: st.Ino})
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return all
}
