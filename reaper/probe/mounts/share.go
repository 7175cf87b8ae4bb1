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

// A process may have mounts whose lines take any length. They are read block by block, and what is
// held of one namespace is the lines that matter and those of the mounts below them.
const mostKept = 8 << 20

var errFound = errors.New("all are found")

// lines calls do for each line of a mountinfo, from its beginning each time.
type lines func(do func(l *procfs.MountLine) error) error

// lines reads an open mountinfo.
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
		defer f.Close() //nolint:errcheck // read only
		return procfs.EachMount(f, do)
	}
}

// table is what is held of one mountinfo: the lines that matter for the wanted pods, and those of the mounts below them.
type table struct {
	lines []procfs.MountLine
	byID  map[string]*procfs.MountLine
}

// kept reads a table.
func (s *scan) kept(p *procfs.Process, w parsers.PodSet, each lines) (t table, _ error) {
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
	below := map[string]bool{}
	err := each(func(l *procfs.MountLine) error {
		s.gathered.note(l)
		switch {
		case l.Cut && s.hides(l):
			cut = procfs.ErrShare
		case matters(l, w) || s.gathered.wants(l):
			add(l)
			if string(l.Target) != "/" || names(l, w) {
				below[string(l.Parent)] = true
			}
		}
		return spends()
	})
	for i := range t.lines {
		delete(below, string(t.lines[i].ID))
	}
	if err == nil && len(below) > 0 {
		err = each(func(l *procfs.MountLine) error {
			if id := string(l.ID); below[id] {
				delete(below, id)
				if add(l); len(below) == 0 {
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

// hides reports whether the line, of which something is missing, may be of a mount that shows a pod. Anybody can
// have a path be as long as that: the mount point of FUSE is its user's to move.
func (s *scan) hides(l *procfs.MountLine) bool {
	return len(l.Root) == 0 || len(l.Rest) == 0 || len(s.where.pods) == 0 || l.Reaches(s.where.pods, "")
}

// over puts the doubt about what was not read where it belongs. A namespace that another process has shown
// in whole is none.
func (s *scan) over(m *Answer, pid string, w parsers.PodSet, why error) {
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

// matters reports whether scanMounts has a use for a line besides its mount ID.
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
