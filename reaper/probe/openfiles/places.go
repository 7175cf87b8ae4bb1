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

// spot is where a path names a wanted pod: entry is the name of its directory below pods or
// quarantine, rest what follows.
type spot struct {
	uid                 parsers.PodUID
	prefix, entry, rest string
}

// spots cuts a path at each wanted UID in it.
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

// places finds out whether a path that names a pod leads below the pod's directory. Any directory
// may have a UID for its name, as /var/log/journal/MACHINE-ID has. So the file is
// compared, by device and inode number, with the one that has the rest of the path for its
// name below pods or quarantine.
type places struct {
	*Reader
	pods, quarantine *bounded.Handle // quarantine is nil where there is none
	ctx              context.Context //nolint:containedctx // the look's, and places end with it
	hang             bool            // a file did not answer: no other is asked
}

// link is what a process has to a file: the name of the process or thread and of the link, both below the proc
// directory. The name is "" of a mapping.
type link struct {
	process, name string
	id            inode // the file itself, if sure
	sure          bool
}

// answered is what the kernel returns of a file.
type answered struct {
	id  inode
	err error
}

// ask runs what may hang on the file system of a process's file.
func (p *places) ask(key string, work func() answered) (inode, error) {
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

// below returns Yes if the process's link leads to the file at the spot, and Unknown if that cannot be determined. No
// step from pods to the file crosses a mount. A file that was deleted has no name that a removal could take: it is none.
func (p *places) below(at spot, l link) policy.Truth {
	dir, err := p.find(at)
	switch {
	case errors.Is(err, unix.EXDEV):
		return policy.Yes // what is mounted there was opened by its name, and keeps the pod too
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
		id, err = p.ask(l.name, func() answered { return statLink(p.ProcDir + "/" + l.name) })
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

// find returns an O_PATH handle of what is at a spot.
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

// statLink finds where a link of /proc leads. It asks for no attribute: device and inode number come all the same, and FUSE
// would ask its server for an attribute that it has not cached, in spite of DONT_SYNC (fuse_update_get_attr of
// fs/fuse/dir.c).
func statLink(path string) answered {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, &st)
	return answered{idOf(&st), err}
}
