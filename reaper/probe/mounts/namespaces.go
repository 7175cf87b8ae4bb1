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

// readHidden reads, by its file, each mount namespace in which every process has another root, since
// mountinfo has nothing outside that root. Reading the link needs CAP_SYS_PTRACE. Without it only the view
// of the process counts.
func (s *scan) readHidden(ctx context.Context, m *Answer, w parsers.PodSet) error {
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
			s.doubt(m, v.pid, w, err)
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

// rootWords describes the root of a process for messages.
func rootWords(root string) string {
	switch path, deleted := strings.CutSuffix(root, " (deleted)"); {
	case deleted:
		return clean.Name(path) + " (which was removed while the process had it)"
	case root == "":
		return "which is not a mount point"
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
	return s.readTable(p, w, func(do func(l *procfs.MountLine) error) error { return procfs.NamespaceMounts(ns, do) })
}

// root returns the process's root if it is known to be below the root of its mount namespace, else "".
// A line for "/" is not enough to know, since the new root may be a mount point. The link has the path
// from the namespace's root, also after pivot_root(2). The error means that the process has ended.
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

// pin holds a mount namespace: a bind mount of its file, or a descriptor.
type pin struct {
	view   *view
	target string // where it is mounted
	fd     string // the descriptor, below the proc directory
}

// ReadHeld reads the mounts once more if held has a mount namespace that m does not have: no process is in
// it, and it is mounted nowhere.
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

// snapsDir is where snapd mounts the namespace of each snap that has run, on every Ubuntu. Only root
// can write there.
const snapsDir = "/run/snapd/ns/"

// readPins reads the mount namespaces that no process is in and that a pin keeps. If one cannot be read, that is an error
// only for a bind mount in the namespace of PID 1, and not for snapd's: any user can mount some in a namespace of their
// own, and must not make every mount of the node unknown (docs/how-it-decides.md).
func (s *scan) readPins(m *Answer, w parsers.PodSet) error {
	read := map[string]bool{}
	var refused error
	// The pins of these namespaces are not read: no path here leads to them.
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
			s.doubt(m, v.pid, w, err)
			continue
		}
		if p.fd == "" && p.view.pid == "1" && !strings.HasPrefix(p.target, snapsDir) {
			refused = fmt.Errorf("cannot read the mount namespace that is mounted at %s and has no process: %w", clean.Name(p.target), err)
		}
	}
	return refused
}

// resolveCached is RESOLVE_CACHED of linux/openat2.h, since Linux 5.12.
const resolveCached = 0x20

// openMountPoint opens a mount point of a view by O_PATH, from the root of the process that shows it.
// RESOLVE_CACHED asks no file system on the way, which may be any user's FUSE. A mount point is always cached.
func (s *scan) openMountPoint(v *view, target string) (int, error) {
	up := ""
	if v.byFile { // its paths begin at the namespace's root, where ".." ends
		up = strings.Repeat("/..", 1000)
	}
	root, err := beneath.OpenTrusted(s.proc, v.pid+"/root"+up, unix.O_PATH|unix.O_DIRECTORY)
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

// readPinned reads the namespace of a pin.
func (s *scan) readPinned(m *Answer, v *view, by *procfs.Process, p pin, inode string, w parsers.PodSet) error {
	if p.fd != "" {
		return s.readNamespace(m, v, by, p.fd, w)
	}
	if p.view.held != "" {
		return errors.New("no process shows it")
	}
	handle, err := s.openMountPoint(p.view, p.target)
	if err != nil {
		return err
	}
	defer beneath.Close(handle)
	if !procfs.IsNamespace(handle, inode) {
		return errors.New("something else is mounted there now")
	}
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", handle), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	return s.readOpenNamespace(m, v, by, fd, w)
}

// errChanging means that the mounts changed with each reading. Before Linux 5.8 that may hide one.
var errChanging = errors.New("no two readings agree")

// enteredMounts reads the mount namespace whose file is open, from its root. It is for kernels before Linux 6.13, which
// cannot list a namespace by its file: a thread enters the namespace, where it gets the namespace's root, and opens its own
// mountinfo. setns(2) needs CAP_SYS_ADMIN and CAP_SYS_CHROOT: a root shell has them, the service only with a drop-in
// (docs/how-it-decides.md).
func (s *scan) enteredMounts(p *procfs.Process, w parsers.PodSet, ns int) (table, error) {
	if s.noEntering {
		return table{}, unix.EPERM
	}
	fd, err := enterMounts(ns)
	if err != nil {
		return table{}, err
	}
	defer beneath.Close(fd)
	return s.readStable(p, w, s.lines(fd))
}

// enterMounts opens mountinfo in a mount namespace. The open file keeps showing that namespace from its root.
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
	// The namespace may have another /proc: open this one first.
	self, err := beneath.OpenTrusted(unix.AT_FDCWD, "/proc/thread-self", unix.O_PATH|unix.O_DIRECTORY)
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
	return beneath.OpenTrusted(self, "mountinfo", unix.O_RDONLY)
}
