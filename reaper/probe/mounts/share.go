package mounts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// mostKept bounds the lines that are held of one namespace, since a process may have lines of any length.
const mostKept = 8 << 20

var errFound = errors.New("all are found")

// lines calls do for each line of a mountinfo, each time from the beginning.
type lines func(do func(l *procfs.MountLine) error) error

// lines returns the lines of an open mountinfo.
func (s *scan) lines(fd int) lines {
	return func(do func(l *procfs.MountLine) error) error {
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return err
		}
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(dup), "mountinfo "+strconv.Itoa(dup))
		defer f.Close()
		return procfs.EachMount(f, do)
	}
}

// table has the lines of one mountinfo that matter for the wanted pods, and those of their parent mounts.
type table struct {
	lines []procfs.MountLine
	byID  map[string]*procfs.MountLine
}

func (s *scan) readTable(p *procfs.Process, w parsers.PodSet, each lines) (t table, _ error) {
	var cut error
	count, length := 0, 0
	add := func(l *procfs.MountLine) {
		t.lines = append(t.lines, l.Clone())
		length += len(l.Text)
	}
	spends := func() error {
		if count++; length > mostKept {
			return procfs.ErrShare
		}
		if count%64 == 0 {
			return p.Over()
		}
		return nil
	}
	parents := map[string]bool{} // to find
	err := each(func(l *procfs.MountLine) error {
		s.collector.addLink(l)
		switch {
		case l.Cut && s.hides(l):
			cut = procfs.ErrShare
		case matters(l, w) || s.collector.wants(l):
			add(l)
			if string(l.Target) != "/" || names(l, w) {
				parents[string(l.Parent)] = true
			}
		}
		return spends()
	})
	for i := range t.lines {
		delete(parents, string(t.lines[i].ID))
	}
	if err == nil && len(parents) > 0 {
		err = each(func(l *procfs.MountLine) error {
			if id := string(l.ID); parents[id] {
				delete(parents, id)
				if add(l); len(parents) == 0 {
					return errFound
				}
			}
			return spends()
		})
		if errors.Is(err, errFound) {
			err = nil
		}
	}
	t.byID = make(map[string]*procfs.MountLine, len(t.lines))
	for i := range t.lines {
		t.byID[string(t.lines[i].ID)] = &t.lines[i]
	}
	return t, cmp.Or(err, cut)
}

// hides reports whether a line that was cut may be a mount that shows a pod. Any user can make a path that long, by
// moving the mount point of a FUSE file system.
func (s *scan) hides(l *procfs.MountLine) bool {
	return len(l.Root) == 0 || len(l.Rest) == 0 || len(s.where.pods) == 0 || l.Reaches(s.where.pods, "")
}

// doubt records that the mounts of a process were not read completely, unless another process has shown its whole
// namespace. The doubt is about the process's own pod, or about the node (procfs.Shares.Near).
func (s *scan) doubt(m *Answer, pid string, w parsers.PodSet, why error) {
	link, ok := s.namespace(pid)
	if ok && wholeNamespaces(s.views)[link] {
		return
	}
	o, err := s.Whose(pid)
	if err != nil {
		return // it has ended
	}
	who := "PID " + procfs.Who(s.ProcDir, pid)
	if w[o.Pod] {
		m.Unsure[o.Pod] = who + ": " + why.Error()
	}
	near := s.Near(pid, slices.Concat(s.where.pods, s.where.plugins), o)
	if m.Err == nil && (near || !errors.Is(why, procfs.ErrShare)) {
		m.Err = fmt.Errorf("cannot read the mounts of %s: %w", who, why)
	}
}

// matters reports whether scanMounts needs the line.
func matters(l *procfs.MountLine, w parsers.PodSet) bool {
	if string(l.Target) == "/" || procfs.IsMountNamespace(l.Root) || len(l.FSType()) == 0 ||
		bytes.Contains(l.Target, pluginsDir) || bytes.Contains(l.Root, pluginsDir) {
		return true
	}
	return names(l, w)
}

func names(l *procfs.MountLine, w parsers.PodSet) bool {
	var found [4]parsers.PodUID
	named := len(w.InPath(w.InPath(found[:0], l.Target), l.Root)) > 0
	w.InText(l.Rest, func(parsers.PodUID) { named = true })
	return named
}
