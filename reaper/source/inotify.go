package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// watch is a file or directory that wakes the follower.
type watch struct {
	path string
	mask uint32
	ino  uint64 // of a directory when it was looked up, to see that it is replaced
}

// watcher turns all inotify events into wake-ups: one without a reason costs one stat(2). Until a wake-up is received no
// event is read, so that the kernel merges those of a busy file into one.
type watcher struct {
	file *os.File
	fd   int
	wake chan struct{}
	done chan struct{}
	wg   sync.WaitGroup
	set  map[int]bool // the watch descriptors
}

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot make an inotify instance: %w", err)
	}
	w := &watcher{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd,
		wake: make(chan struct{}), done: make(chan struct{}),
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
		if _, err := w.file.Read(buf); err != nil {
			return // Closed; the timer still wakes the follower if it is anything else.
		}
		select {
		case w.wake <- struct{}{}:
		case <-w.done:
			return
		}
	}
}

// watch makes exactly these watches. What does not exist is left out; the error is for what leaves the follower without
// wake-ups: no watches left (ENOSPC), no memory.
func (w *watcher) watch(watches []watch) error {
	set := make(map[int]bool, len(watches))
	var failed error
	for _, v := range watches {
		wd, err := unix.InotifyAddWatch(w.fd, v.path, v.mask)
		switch {
		case err == nil:
			set[wd] = true
		case !unwatchable(err):
			failed = fmt.Errorf("cannot watch %q: %w", v.path, err)
		}
	}
	for wd := range w.set {
		if !set[wd] {
			// EINVAL is usual: the kernel has removed the watch along with the file.
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
		}
	}
	w.set = set
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

// watches returns what must wake the follower: the open file by its descriptor, the file that has the name, and the
// directory of the name and of every link on the way to the file. Where such a
// directory is missing, the nearest one above that exists.
func (f *File) watches() []watch {
	all := []watch{{path: f.path, mask: fileEvents}}
	if f.cur != nil {
		all = append(all, watch{path: descriptor(f.cur.file), mask: fileEvents})
	}
	path := f.path
	for range maxLinks {
		dir := filepath.Dir(path)
		var st unix.Stat_t
		for {
			if err := unix.Stat(dir, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR || dir == filepath.Dir(dir) {
				break
			}
			dir = filepath.Dir(dir)
		}
		all = append(all, watch{dir, dirEvents, st.Ino})
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
