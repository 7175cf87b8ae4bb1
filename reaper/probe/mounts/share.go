package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A process may have mounts whose lines take any length. They are read block by block, and what is
// held is the lines that matter and those of the mounts below them.
const (
	mostKept  = 8 << 20
	mostRead  = 256 << 20
	mostLines = 250_000 // the kernel has a limit of 100,000 for one namespace, and they are read twice
)

var errShare = errors.New("it has more mounts, or longer paths of mounts, than are read of one process")

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

// kept returns the lines that matter for the wanted pods, and those of the mounts below them. With
// errShare it returns what it has.
func (s *scan) kept(m *Answer, w parsers.PodSet, each lines) ([]byte, error) {
	var text []byte
	var cut error
	read, count, until := 0, 0, time.Now().Add(s.Guard.Limit()/4)
	spends := func(l *procfs.MountLine) error {
		read += len(l.Root) + len(l.Target) + len(l.Rest)
		if count++; read > mostRead || count > mostLines || len(text) > mostKept || count%64 == 0 && time.Now().After(until) {
			return errShare
		}
		return nil
	}
	ids, below := map[string]bool{}, map[string]bool{}
	err := each(func(l *procfs.MountLine) error {
		if id, ok := l.Number(); ok && !l.Later {
			m.IDs = append(m.IDs, id)
		}
		switch {
		case l.Cut:
			cut = errShare
		case matters(l, w):
			text = appendLine(text, l)
			ids[string(l.ID)] = true
			if string(l.Target) != "/" || names(l, w) {
				below[string(l.Parent)] = true
			}
		}
		return spends(l)
	})
	maps.DeleteFunc(below, func(id string, _ bool) bool { return ids[id] })
	if err == nil && len(below) > 0 {
		err = each(func(l *procfs.MountLine) error {
			if id := string(l.ID); below[id] && !l.Cut {
				delete(below, id)
				if text = appendLine(text, l); len(below) == 0 {
					return errFound
				}
			}
			return spends(l)
		})
		if errors.Is(err, errFound) {
			err = nil
		}
	}
	if err == nil {
		err = cut
	}
	return text, err
}

// over puts the doubt about what is over its share where it belongs, and returns what is a doubt
// about the node.
func (s *scan) over(m *Answer, pid string, w parsers.PodSet, err error) error {
	if !errors.Is(err, errShare) {
		return err
	}
	owner := procfs.OwnerOf(s.ProcDir, pid)
	if owner.Enters && procfs.Shows(s.ProcDir, pid, slices.Concat(m.where.pods, m.where.plugins), owner.Pod) {
		return err
	}
	if w[owner.Pod] {
		m.Unsure[owner.Pod] = fmt.Sprintf("PID %s: %s", procfs.Who(s.ProcDir, pid), err)
	}
	return nil
}

// matters says whether scanMounts has a use for a line besides its mount ID.
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

// appendLine writes a line. Of a later part of a long one, what names a pod comes as a line of its own.
func appendLine(text []byte, l *procfs.MountLine) []byte {
	for _, field := range [...][]byte{l.ID, l.Parent, l.Dev, l.Root, l.Target} {
		text = append(append(text, field...), ' ')
	}
	if l.Later {
		text = append(append(append(text, "rw - "...), l.FSType()...), ' ')
	}
	return append(append(text, l.Rest...), '\n')
}
