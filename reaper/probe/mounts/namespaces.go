package mounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// unseen looks for the mount namespaces of which every process has another root: mountinfo
// shows nothing outside that root. They are read by the file of the namespace. The link needs
// CAP_SYS_PTRACE; where it cannot be read, the process counts as a view of its own and no more.
func (s *scan) unseen(ctx context.Context, m *Answer, w parsers.PodSet) error {
	var links map[string]bool
	for _, v := range slices.Clone(s.views) {
		if v.whole {
			continue
		}
		link, ok := s.namespace(v.pid)
		if !ok {
			continue
		}
		if links == nil {
			links = wholeNamespaces(s.views)
		}
		if links[link] {
			continue
		}
		whole := &view{pid: v.pid, link: link, whole: true, byFile: true, apart: s.Apart(v.pid)}
		err := s.Again(v.pid, func(p *procfs.Process) error { return s.readNamespace(m, whole, p, v.pid+"/ns/mnt", w) })
		switch {
		case err == nil:
			links[link] = true
		case errors.Is(err, procfs.ErrShare):
			s.over(m, v.pid, w, err)
		case procfs.Vanished(err) || procfs.Ended(s.proc, v.pid, err):
		default:
			if uid, ok := s.confined(ctx, v, link); ok {
				m.confined[uid] = true
				continue
			}
			return fmt.Errorf("the mounts outside the root of PID %s, %s, are hidden: no process of its mount namespace has another root, and %w",
				procfs.Who(s.ProcDir, v.pid), rootWords(v.root), err)
		}
	}
	return nil
}

// rootWords returns what the root of a process is.
func rootWords(root string) string {
	switch path, deleted := strings.CutSuffix(root, " (deleted)"); {
	case deleted:
		return clean.Name(path) + " (which was removed while the process had it)"
	case root == "":
		return "which is no mount point"
	}
	return clean.Name(root)
}

// readNamespace reads a mount namespace by a file of it, a path below the proc directory.
func (s *scan) readNamespace(m *Answer, v *view, p *procfs.Process, path string, w parsers.PodSet) error {
	fd, err := procfs.OpenNamespace(s.proc, path)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	return s.readOpenNamespace(m, v, p, fd, w)
}

func (s *scan) readOpenNamespace(m *Answer, v *view, p *procfs.Process, fd int, w parsers.PodSet) error {
	t, err := s.list(p, w, fd)
	if errors.Is(err, procfs.ErrNoNamespaces) {
		if entered, cannot := s.enteredMounts(p, w, fd); cannot == nil {
			t, err = entered, nil
		}
	}
	if found := m.scanMounts(v, p.Hold, &t, w); err == nil {
		err = found
	}
	if err == nil {
		s.views = append(s.views, v)
	}
	return err
}

func (s *scan) list(p *procfs.Process, w parsers.PodSet, ns int) (table, error) {
	if s.noListing {
		return table{}, procfs.ErrNoNamespaces
	}
	return s.kept(p, w, func(do func(l *procfs.MountLine) error) error { return procfs.NamespaceMounts(ns, do) })
}

// root returns the process's root where it is known to be below that of its mount namespace.
// A line for "/" does not show it: the new root may be a mount point. The link goes up to the
// namespace's root, since ours is not on the way; pivot_root(2) leaves "/". The error is that
// of a process that has ended.
func (s *scan) root(pid string) (string, error) {
	var buf [1024]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(s.proc, pid+"/root", buf[:]) })
	if err != nil {
		if procfs.Ended(s.proc, pid, err) {
			return "", unix.ESRCH
		}
		if errors.Is(err, unix.ENAMETOOLONG) {
			return "a path of more than 4,096 bytes", nil
		}
		return "", nil
	}
	if root := string(buf[:n]); root != "/" {
		return root, nil
	}
	return "", nil
}

// pin is what holds a mount namespace: a bind of its file, or a descriptor of it.
type pin struct {
	view   *view
	target string // where it is bound
	fd     string // a descriptor of it, below the proc directory
}

// ReadHeld reads the mounts once more where a process holds a mount namespace open that no
// process is in and that is bound nowhere.
func (r *Reader) ReadHeld(ctx context.Context, m *Answer, held map[string]string, w parsers.PodSet, sockets []string) *Answer {
	known := allNamespaces(m.views)
	missing := maps.Clone(held)
	maps.DeleteFunc(missing, func(link, _ string) bool {
		_, bound := m.pinned[link]
		return bound || known[link]
	})
	if len(missing) == 0 {
		return m
	}
	return r.read(ctx, w, sockets, missing)
}

// snapsDir is where snapd binds the mount namespace of each snap that has run, on every
// Ubuntu: only root can write there.
const snapsDir = "/run/snapd/ns/"

// pins reads the mount namespaces that no process is in and that a bind of their file keeps. On a kernel that cannot list
// them, those of snapd are left unread, and so are those that are bound elsewhere than in the namespace of PID 1: any user
// can bind some in a mount namespace of their own, and must not make every mount of the node unknown (docs/how-it-decides.md).
func (s *scan) pins(m *Answer, w parsers.PodSet) error {
	read := map[string]bool{}
	var refused error
	// What is read may hold the file of another one, which is not reachable by a path here.
	for _, inode := range slices.Sorted(maps.Keys(m.pinned)) {
		if len(read) == 0 {
			read = allNamespaces(s.views)
		}
		if read[inode] {
			continue
		}
		p := m.pinned[inode]
		v := &view{pid: p.view.pid, link: inode, whole: true, held: clean.Name(p.target), apart: s.Apart(p.view.pid)}
		if p.fd != "" {
			v.held = "PID " + procfs.Who(s.ProcDir, p.view.pid)
		}
		err := s.Again(v.pid, func(by *procfs.Process) error { return s.readPinned(m, v, by, p, inode, w) })
		if err == nil || p.fd != "" && procfs.Vanished(err) {
			continue
		}
		if m.unread++; errors.Is(err, procfs.ErrShare) {
			s.over(m, v.pid, w, err)
			continue
		}
		if p.fd == "" && p.view.pid == "1" && !strings.HasPrefix(p.target, snapsDir) {
			refused = fmt.Errorf("the mount namespace that is bound at %s, and that no process is in, cannot be read: %w", clean.Name(p.target), err)
		}
	}
	return refused
}

// resolveCached is RESOLVE_CACHED of linux/openat2.h, of Linux 5.12.
const resolveCached = 0x20

// at holds a mount point of a view by O_PATH, from the root of the process that shows it.
// RESOLVE_CACHED asks no file system on the way: it may be any user's FUSE, and a mount point is always cached.
func (s *scan) at(v *view, target string) (int, error) {
	up := ""
	if v.byFile { // its paths begin at the namespace's root, where ".." ends
		up = strings.Repeat("/..", 1000)
	}
	root, err := beneath.Retry(func() (int, error) {
		return unix.Openat(s.proc, v.pid+"/root"+up, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	defer beneath.Close(root)
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | resolveCached,
	}
	return beneath.Retry(func() (int, error) { return unix.Openat2(root, target, &how) })
}

// readPinned reads the namespace by the bind of its file.
func (s *scan) readPinned(m *Answer, v *view, by *procfs.Process, p pin, inode string, w parsers.PodSet) error {
	if p.fd != "" {
		return s.readNamespace(m, v, by, p.fd, w)
	}
	if p.view.held != "" {
		return errors.New("no process shows it")
	}
	handle, err := s.at(p.view, p.target)
	if err != nil {
		return err
	}
	defer beneath.Close(handle)
	if !procfs.IsNamespace(handle, inode) {
		return errors.New("something else is mounted there by now")
	}
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(fmt.Sprintf("/proc/self/fd/%d", handle), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	return s.readOpenNamespace(m, v, by, fd, w)
}

// Before Linux 6.13 no call lists a mount namespace by its file. What a process outside shows of
// it ends at that process's root. So a thread of ours enters the namespace, where its root is the
// namespace's, and opens its own mountinfo. setns(2) wants CAP_SYS_ADMIN and CAP_SYS_CHROOT for
// that: root's shell has them, the service only by a drop-in (docs/how-it-decides.md).

// errChanging is for mounts that change all the time; before Linux 5.8 that may hide one.
var errChanging = errors.New("no two readings agree")

// enteredMounts reads the mount namespace whose file is open, seen from the namespace's root.
func (s *scan) enteredMounts(p *procfs.Process, w parsers.PodSet, ns int) (table, error) {
	if s.noEntering {
		return table{}, unix.EPERM
	}
	fd, err := enterMounts(ns)
	if err != nil {
		return table{}, err
	}
	defer beneath.Close(fd)
	return s.agreed(p, w, s.lines(fd))
}

// enterMounts opens mountinfo in a mount namespace. An open mountinfo stays that of the namespace and the root of its
// thread.
func enterMounts(ns int) (fd int, err error) {
	done := make(chan struct{})
	bounded.OnOwnThread(func() {
		defer close(done)
		fd, err = mountinfoIn(ns)
	})
	<-done
	return fd, err
}

func mountinfoIn(ns int) (int, error) {
	// Whatever lies at /proc there, this is opened before.
	self, err := beneath.Retry(func() (int, error) {
		return unix.Open("/proc/thread-self", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	defer beneath.Close(self)
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // root and working directory are this thread's alone
		return -1, err
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return -1, err
	}
	return beneath.Retry(func() (int, error) { return unix.Openat(self, "mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
}
