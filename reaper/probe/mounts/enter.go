package mounts

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Before Linux 6.13 no call lists a mount namespace by its file. What a process outside shows of
// it ends at that process's root. So a thread of ours enters the namespace, where its root is the
// namespace's, and opens its own mountinfo. setns(2) wants CAP_SYS_ADMIN and CAP_SYS_CHROOT for
// that: a person's shell has them, the service has not unless a drop-in gives them (docs/how-it-decides.md).

// errChanging is for mounts that change all the time; before Linux 5.8 that may hide one.
var errChanging = errors.New("no two readings agree")

// enteredMounts returns what matters of the mount namespace whose file is open, seen from the
// namespace's root.
func (s *scan) enteredMounts(p *procfs.Process, w parsers.PodSet, ns int) ([]byte, error) {
	fd, err := s.open(ns)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	text, err := s.kept(p, w, s.lines(fd))
	if err != nil || !s.losesLines() {
		return text, err
	}
	return s.agreed(p, w, text, s.lines(fd))
}

func (s *scan) open(ns int) (int, error) {
	if s.noEntering {
		return -1, unix.EPERM
	}
	return enterMounts(ns)
}

// enterMounts opens mountinfo in a mount namespace. An open mountinfo stays that of the namespace
// and the root that its thread had, whoever reads it.
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
