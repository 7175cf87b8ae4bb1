package fdpath

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Visitor is what a walk does with what it finds. An error of a method ends the walk.
type Visitor interface {
	// Enter reports whether the walk reads the directory, which is open.
	Enter(l *Level, st *unix.Statx_t) (bool, error)
	// File is called for an entry that is not a directory.
	File(l *Level, name string, st *unix.Statx_t) error
	// Leave is called after the last entry of a directory. If again is true, the directory is read once more.
	Leave(l *Level) (again bool, err error)
	// Failed is called for a name in l that could not be visited, or "" for l itself if it could not be listed. EXDEV: it is
	// a mount point. ErrSubvolume, ErrTooDeep and ErrChanges have no errno. What has vanished is not reported.
	Failed(l *Level, name, op string, err error) error
}

var (
	// ErrSubvolume reports a directory on another device that is no mount point: openat2 does not stop at a btrfs subvolume.
	ErrSubvolume = errors.New("another subvolume or file system begins here")
	// ErrTooDeep reports a directory at MaxDepth.
	ErrTooDeep = errors.New("it is too deep")
	// ErrChanges reports a name that was a directory when it was listed, none when it was opened, and one again.
	ErrChanges = errors.New("it keeps changing")
)

// MaxDepth is how deep a walk goes, and so how many directories it holds open: a process may have only 1,024 descriptors.
const MaxDepth = 64

// Level is a directory on the way of a walk.
type Level struct {
	*Dir
	Name  string
	Up    *Level // the directory that Name is in; nil if the walk began at a directory without one
	ID    judge.FileID
	Depth int // 0 for the directory at which the walk began

	pending []string // subdirectories to enter
}

// Rel returns the names that lead from the beginning of the walk to name, or to l itself if name is "".
func (l *Level) Rel(name string) []string {
	rel := make([]string, l.Depth, l.Depth+1)
	for at := l; at.Depth > 0; at = at.Up {
		rel[at.Depth-1] = at.Name
	}
	if name != "" {
		rel = append(rel, name)
	}
	return rel
}

// mostPending bounds the names that Also adds.
const mostPending = 10_000

// Also makes the walk enter name, which was moved into l after it was listed. It reports whether there was room for it.
func (l *Level) Also(name string) bool {
	if len(l.pending) >= mostPending {
		return false
	}
	l.pending = append(l.pending, name)
	return true
}

// Walker walks trees. It keeps the memory of one walk for the next, and is used by one goroutine.
type Walker struct {
	buf  []byte
	list []entry
}

const (
	// One piece of a directory is some 100,000 names. From sortFrom on they are sorted by inode, since ext4 lists them in the
	// order of their hashed names: unsorted, or in small pieces, each block of the inode table is written many times. rm(1)
	// sorts as many together.
	pieceSize = 4 << 20
	sortFrom  = 1000
)

// Walk walks the tree of root, which must be open for listing, from its first entry.
func (w *Walker) Walk(root *Level, v Visitor) error {
	st, err := root.Stat()
	if err != nil {
		return v.Failed(root, "", "statx", err)
	}
	root.ID = IDOf(&st)
	enter, err := v.Enter(root, &st)
	if err != nil || !enter {
		return err
	}
	return w.walk(root, v)
}

func (w *Walker) walk(l *Level, v Visitor) error {
	for {
		if err := l.Rewind(); err != nil {
			return v.Failed(l, "", "lseek", err)
		}
		if err := w.read(l, v); err != nil {
			return err
		}
		if again, err := v.Leave(l); err != nil || !again {
			return err
		}
	}
}

// read reads the directory piece by piece: first the files of a piece, then its subdirectories, by which time the buffer is
// free for these.
func (w *Walker) read(l *Level, v Visitor) error {
	for {
		more, err := w.piece(l)
		switch {
		case errors.Is(err, unix.ENOENT): // the directory itself was removed
			return nil
		case err != nil:
			return v.Failed(l, "", "getdents64", err)
		}
		for _, e := range w.list {
			name := e.name(w.buf)
			if e.kind == unix.DT_DIR {
				l.pending = append(l.pending, name)
			} else if err := w.file(l, name, v, false); err != nil {
				return err
			}
		}
		for i := 0; i < len(l.pending); i++ { // Also makes it longer
			if err := w.enter(l, l.pending[i], v); err != nil {
				return err
			}
		}
		l.pending = l.pending[:0]
		if !more {
			return nil
		}
	}
}

// piece reads the next entries of the directory into w.list.
func (w *Walker) piece(l *Level) (more bool, err error) {
	if w.buf == nil {
		w.buf = make([]byte, pieceSize)
	}
	buf := w.buf
	for up := l.Up; up != nil; up = up.Up {
		if len(up.pending) >= sortFrom { // only one level keeps the names of a large piece
			buf = buf[:min(len(buf), listSize)]
		}
	}
	w.list, more, err = getdents(l.FD(), buf, w.list[:0])
	if len(w.list) >= sortFrom {
		slices.SortFunc(w.list, func(a, b entry) int { return cmp.Compare(a.ino, b.ino) })
	}
	return more, err
}

// file visits a name that is no directory by its listing. opened is true if it was one, and was none when it was opened.
func (w *Walker) file(l *Level, name string, v Visitor, opened bool) error {
	st, err := l.StatName(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return v.Failed(l, name, "statx", err)
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0: // Linux 5.8; unlink(2) refuses a mount point in any version
		return v.Failed(l, name, "statx", unix.EXDEV)
	case !IsDir(&st):
		return v.File(l, name, &st)
	case opened:
		return v.Failed(l, name, "openat2", ErrChanges)
	}
	l.pending = append(l.pending, name)
	return nil
}

// enter opens a subdirectory and walks it.
func (w *Walker) enter(l *Level, name string, v Visitor) error {
	if l.Depth+1 >= MaxDepth {
		return v.Failed(l, name, "openat2", ErrTooDeep)
	}
	dir, err := l.Step(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case Is(err, unix.ENOTDIR, unix.ELOOP):
		return w.file(l, name, v, true)
	case err != nil:
		return v.Failed(l, name, "openat2", err)
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return v.Failed(l, name, "statx", err)
	}
	child := &Level{Dir: dir, Name: name, Up: l, ID: IDOf(&st), Depth: l.Depth + 1}
	if child.ID.Dev != l.ID.Dev {
		return v.Failed(l, name, "statx", ErrSubvolume)
	}
	enter, err := v.Enter(child, &st)
	if err != nil || !enter {
		return err
	}
	return w.walk(child, v)
}
