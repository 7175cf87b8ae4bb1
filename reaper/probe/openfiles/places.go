package openfiles

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// inode identifies a file of this node.
type inode struct{ dev, ino uint64 }

func idOf(st *unix.Statx_t) inode { return inode{beneath.DevOf(st), st.Ino} }

// spot is a component of a path that names a wanted pod: entry is the name of its directory below
// pods or quarantine, prefix is what comes before it and rest what follows.
type spot struct {
	uid                 parsers.PodUID
	prefix, entry, rest string
}

// spots returns each component of a path that names a wanted pod.
func spots(w parsers.PodSet, path string) []spot {
	var found []spot
	for start := 0; start < len(path); {
		end := len(path)
		if i := strings.IndexByte(path[start:], '/'); i >= 0 {
			end = start + i
		}
		if uid, ok := w.Component([]byte(path[start:end])); ok {
			found = append(found, spot{uid, path[:start], path[start:end], strings.TrimPrefix(path[end:], "/")})
		}
		start = end + 1
	}
	return found
}

// places finds out whether a path that names a pod leads to a file below the pod's directory. Any
// directory may have the form of a UID as its name, such as /var/log/journal/MACHINE-ID. So places
// compares device and inode number with those of the file that has the rest of the path as its name
// below pods or quarantine.
type places struct {
	*Reader
	pods, quarantine *bounded.Handle // quarantine may be nil
	ctx              context.Context //nolint:containedctx // the look's, and places end with it
	hang             bool            // a file did not answer: ask no other
}

// link is a process's link to a file: the name of the process or thread and of the link, both below the proc directory.
// The name of a mapping is "".
type link struct {
	process, name string
	id            inode // of the file, if sure
	sure          bool
}

// fileID is the result of a stat.
type fileID struct {
	id  inode
	err error
}

// stat runs a stat that may hang on the file system of a process's file.
func (p *places) stat(key string, work func() fileID) (inode, error) {
	if p.hang {
		return inode{}, bounded.ErrHangs
	}
	a, err := bounded.Within(p.ctx, p.Guard, "file "+key, p.Guard.Limit()/8, work)
	if err != nil {
		p.hang = true
		return inode{}, err
	}
	return a.id, a.err
}

// leads returns Yes if the process's link leads to the file at the spot, and Unknown if that cannot be determined. No
// step from pods to the file crosses a mount. A deleted file counts as No, since a removal cannot remove its name.
func (p *places) leads(at spot, l link) policy.Truth {
	dir, err := p.find(at)
	switch {
	case errors.Is(err, unix.EXDEV):
		return policy.Yes // a mount is there, which keeps the pod, too
	case notThere(err):
		return policy.No
	case err != nil:
		return policy.Unknown
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil || !l.sure && l.name == "" {
		return policy.Unknown
	}
	id, err := l.id, error(nil)
	if !l.sure {
		id, err = p.stat(l.name, func() fileID { return statLink(p.ProcDir + "/" + l.name) })
	}
	switch {
	case err == nil && id == idOf(&st):
		return policy.Yes
	case err == nil, notThere(err), procfs.Vanished(err):
		return policy.No
	}
	return policy.Unknown
}

// notThere reports whether the error means that no file has the name.
func notThere(err error) bool {
	return beneath.Gone(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL)
}

// find returns an O_PATH handle of the file at a spot.
func (p *places) find(at spot) (*beneath.Dir, error) {
	parent := p.pods
	if len(at.entry) != len(at.uid) {
		parent = p.quarantine
	}
	if parent == nil {
		return nil, unix.ENOENT
	}
	dir, err := p.Open.At(parent.FD).Handle(at.entry)
	for _, name := range strings.FieldsFunc(at.rest, func(r rune) bool { return r == '/' }) {
		if err != nil {
			break
		}
		var next *beneath.Dir
		next, err = dir.Handle(name)
		dir.Close()
		dir = next
	}
	return dir, err
}

// statLink returns the file to which a link of /proc leads. It requests no attribute, since FUSE would ask its server for one
// that it has not cached in spite of DONT_SYNC (fuse_update_get_attr of fs/fuse/dir.c). The result has device and inode
// number anyway.
func statLink(path string) fileID {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, &st)
	return fileID{idOf(&st), err}
}
