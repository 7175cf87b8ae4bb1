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

// inode is what tells one file of this node from another.
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

// deletedMark ends the path of a file that has no name any more (d_path of fs/d_path.c).
const deletedMark = " (deleted)"

// places tell whether a path that names a pod leads below the pod's directory. Any directory
// may have a UID for its name, as /var/log/journal/MACHINE-ID has. So the file is
// compared, by device and inode number, with the one that has the rest of the path for its
// name below pods or quarantine.
type places struct {
	*Reader
	pods, quarantine *bounded.Handle // quarantine is nil where there is none
	ctx              context.Context //nolint:containedctx // the look's, and places end with it
	hang             bool            // a file did not answer: no other is asked
}

// link is what a process has to a file: the name of the process or thread and of the link,
// both below the proc directory. Where no link leads to the file, name is "" and only the path
// is known.
type link struct {
	process, name string
	// id is the file itself where sure says that the kernel has told it.
	id   inode
	sure bool
	// near reports whether a doubt about the file is one about the pod that its path names. The file
	// system of another process's file is not asked: it may be anybody's, and hang.
	near func() bool
}

// answered is what the kernel says of a file.
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

// below answers Yes where the process's link leads below the pod's directory, and Unknown
// where that cannot be told. No step from pods to the file crosses a mount.
func (p *places) below(at spot, l link) policy.Truth {
	dir, err := p.find(at)
	if err == nil {
		defer dir.Close()
		st, serr := dir.Stat()
		if serr != nil {
			return policy.Unknown
		}
		if l.sure {
			return same(l.id, idOf(&st), nil)
		}
		if l.name == "" && !l.near() {
			return policy.Unknown
		}
		if l.name == "" {
			return p.leads(l.process, at.prefix+at.entry+"/"+at.rest, idOf(&st))
		}
		id, serr := p.ask(l.name, func() answered { return statLink(p.ProcDir + "/" + l.name) })
		return same(id, idOf(&st), serr)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return policy.Yes // what is mounted there was opened by its name, and keeps the pod too
	case !notThere(err):
		return policy.Unknown
	case strings.HasSuffix(at.rest, deletedMark):
		if !l.near() {
			return policy.No // it has no name that a removal could take
		}
		was := p.wasBelow(at, l)
		if l.sure && was == policy.Unknown {
			was = policy.No
		}
		return was
	}
	return policy.No
}

// notThere reports whether the error says that no file has the name.
func notThere(err error) bool {
	return beneath.Gone(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL)
}

// find gives an O_PATH handle of what is at a spot.
func (p *places) find(at spot) (*beneath.Dir, error) {
	dir, err := p.podDir(at)
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

// podDir gives an O_PATH handle of the pod directory that a spot names.
func (p *places) podDir(at spot) (*beneath.Dir, error) {
	parent := p.pods
	if len(at.entry) != len(at.uid) {
		parent = p.quarantine
	}
	if parent == nil {
		return nil, unix.ENOENT
	}
	return p.Open.At(parent.FD).Handle(at.entry)
}

// statLink asks where a link of /proc leads. It asks for no attribute: device and inode
// number come all the same, and FUSE would ask its server for an attribute that it has not
// cached, whatever DONT_SYNC says (fuse_update_get_attr of fs/fuse/dir.c).
func statLink(path string) answered {
	var st unix.Statx_t
	err := statLinkTo(path, &st)
	return answered{idOf(&st), err}
}

func statLinkTo(path string, st *unix.Statx_t) error {
	return unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, 0, st)
}

// wasBelow answers for a file that has no name any more: there is only its path, as it is
// called in the mount namespace of the process. The part of the path up to the UID must lead
// to the pod's directory there.
func (p *places) wasBelow(at spot, l link) policy.Truth {
	dir, err := p.podDir(at)
	if err != nil {
		return policy.No
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return policy.Unknown
	}
	return p.leads(l.process, at.prefix+at.entry, idOf(&st))
}

// leads reports whether a path leads to a file in the mount namespace of a process.
func (p *places) leads(process, path string, to inode) policy.Truth {
	root, ok := p.rootOf(process)
	if !ok {
		return policy.Unknown
	}
	id, err := p.ask(process, func() answered { return p.statBelow(root, path) })
	return same(id, to, err)
}

func same(a, b inode, err error) policy.Truth {
	switch {
	case err == nil && a == b:
		return policy.Yes
	case err == nil, notThere(err), procfs.Vanished(err):
		return policy.No
	}
	return policy.Unknown
}

// rootOf returns the root directory from which a process's links are told: ours, where the
// process is in our mount namespace, else that of its namespace. A process that has another
// root in another namespace has no link to that one.
func (p *places) rootOf(process string) (string, bool) {
	var ours, theirs [64]byte
	n, err := unix.Readlink(p.ProcDir+"/self/ns/mnt", ours[:])
	m, err2 := unix.Readlink(p.ProcDir+"/"+process+"/ns/mnt", theirs[:])
	if err != nil || err2 != nil {
		return "", false
	}
	if string(ours[:n]) == string(theirs[:m]) {
		return "/", true
	}
	path := p.ProcDir + "/" + process + "/root"
	n, err = unix.Readlink(path, ours[:])
	return path, err == nil && string(ours[:n]) == "/"
}

// statBelow asks about what a path names, seen from a root. The kernel's paths
// have no symlinks in them.
func (p *places) statBelow(root, path string) (a answered) {
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return answered{err: err}
	}
	defer beneath.Close(top)
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := beneath.Retry(func() (int, error) {
		if p.Open.Fallback() != nil {
			return unix.Openat(top, strings.TrimLeft(path, "/"), flags, 0)
		}
		return unix.Openat2(top, path, &how)
	})
	if err != nil {
		return answered{err: err}
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	return answered{idOf(&st), err}
}
