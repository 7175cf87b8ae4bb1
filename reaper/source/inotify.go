package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// The events that wake a follower. The last unlink of an open file sends IN_ATTRIB, and so does a
// chmod that makes a file readable.
const (
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF
	dirEvents  = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB |
		unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR
)

// watch is a file or directory that wakes the follower.
type watch struct {
	path string
	mask uint32
	ino  uint64 // of a directory, which shows that it was replaced
}

// watcher turns all inotify events into wake-ups. One too many costs one stat(2). It reads no event until a wake-up was
// received, so that the kernel merges the events of a busy file.
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
	_ = w.file.Close()
	w.wg.Wait()
}

func (w *watcher) run() {
	buf := make([]byte, 16<<10)
	for {
		if _, err := w.file.Read(buf); err != nil {
			return // closed; after another error the timer still wakes the follower
		}
		select {
		case w.wake <- struct{}{}:
		case <-w.done:
			return
		}
	}
}

// watch sets exactly these watches. It leaves out paths that do not exist. An error means that the follower would miss
// wake-ups: no watches are left (ENOSPC), no memory.
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
			// EINVAL: the kernel has removed the watch together with the file.
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
		}
	}
	w.set = set
	return failed
}

// unwatchable reports whether the path cannot be reached, which the follower reports itself.
func unwatchable(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP)
}

// maxLinks is the kernel's own bound on symlinks in one path (path_resolution(7)).
const maxLinks = 40

// watches returns what must wake the follower: the open file by its descriptor, the file that has the name, and the
// directories of the name and of every link to the file. If such a directory is missing, it returns the nearest parent
// that exists.
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
