package openfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A line of /proc/PID/maps, proc_pid_maps(5):
//
//	7f14c2244000-7f14c2245000 r--s 00000000 07:00 14                         /dir/file
//	(1)                       (2)  (3)      (4)   (5)                        (6)
//
// A file stays mapped when its descriptor is closed. (4) is the device that mountinfo has for
// the file system, which on btrfs is not the one that statx gives; (5) is the inode number. In
// (6) a newline is an octal escape, and nothing else.
type mapping struct {
	dev, ino []byte
	path     []byte
}

func parseMapping(line []byte) (m mapping, ok bool) {
	for range 3 {
		if _, line, ok = bytes.Cut(line, []byte{' '}); !ok {
			return m, false
		}
	}
	m.dev, line, ok = bytes.Cut(line, []byte{' '})
	m.ino, line, _ = bytes.Cut(line, []byte{' '})
	m.path = bytes.TrimLeft(line, " ")
	return m, ok && len(m.ino) > 0
}

// id returns device and inode number, and false where they are none.
func (m mapping) id() (inode, bool) {
	major, minor, ok := bytes.Cut(m.dev, []byte{':'})
	a, err := strconv.ParseUint(string(major), 16, 32)
	b, err2 := strconv.ParseUint(string(minor), 16, 32)
	ino, err3 := strconv.ParseUint(string(m.ino), 10, 64)
	return inode{unix.Mkdev(uint32(a), uint32(b)), ino}, ok && errors.Join(err, err2, err3) == nil
}

// biggestMaps is far above what the kernel allows a process by itself: 65,530 mappings
// (vm.max_map_count) of some 100 bytes, or of 4,200.
const biggestMaps = 512 << 20

// mapped reads what each process has mapped. That waits for a process that changes its mappings
// and hangs meanwhile, so it is a part of its own: its error names the process.
func (r *Reader) mapped(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *Answer {
	var now atomic.Value
	now.Store("")
	quarantine.Ref()
	u, err := bounded.On(ctx, r.Guard, "mappings", pods, func(int) *Answer {
		defer quarantine.Unref()
		return r.readMapped(ctx, pods, quarantine, w, &now)
	})
	if errors.Is(err, bounded.ErrStuck) {
		quarantine.Unref() // the reading has not begun
	}
	if err != nil {
		pid, _ := now.Load().(string)
		if pid == "" {
			return r.newAnswer(ctx, fmt.Errorf("cannot read what processes have mapped: %w", err))
		}
		return r.newAnswer(ctx, fmt.Errorf("cannot read what PID %s has mapped: %w; end it to go on", procfs.Who(r.ProcDir, pid), err))
	}
	return u
}

func (r *Reader) readMapped(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet, now *atomic.Value) *Answer {
	proc, err := procfs.Open(r.ProcDir)
	if err != nil {
		return r.newAnswer(ctx, err)
	}
	defer beneath.Close(proc)
	s := r.newScan(ctx, proc, pods, quarantine, w)
	s.names = make([]byte, 0, 128<<10)
	_, err = procfs.Each(ctx, r.ProcDir, proc, func(pid string) (ended bool) {
		now.Store(pid)
		ended, err := s.maps(pid)
		if err != nil && s.Err == nil {
			s.Err = fmt.Errorf("cannot read what PID %s has mapped: %w", pid, err)
		}
		return ended
	})
	if err != nil {
		s.Err = err
	}
	return s.Answer
}

// maps reads the mappings of a process, which all its threads share. A process whose first
// thread has ended shows them at another.
func (s *scan) maps(pid string) (ended bool, err error) {
	text, err := s.mapsOf(pid)
	if err == nil && len(text) == 0 {
		others, err := procfs.Threads(s.proc, pid)
		if err != nil {
			return false, err
		}
		for _, tid := range others {
			if text, err = s.mapsOf(tid); err == nil && len(text) > 0 {
				break
			}
		}
	}
	if err != nil {
		_, ended, err = s.class(pid, err)
		return ended, err
	}
	var last mapping
	var found [4]parsers.PodUID
	for line := range bytes.Lines(text) {
		m, ok := parseMapping(bytes.TrimSuffix(line, []byte{'\n'}))
		if !ok || string(m.ino) == "0" || bytes.Equal(m.ino, last.ino) && bytes.Equal(m.dev, last.dev) {
			continue
		}
		last = m
		if len(s.wanted.InPath(found[:0], m.path)) > 0 {
			s.hint(link{process: pid}, string(bytes.ReplaceAll(m.path, []byte(`\012`), []byte{'\n'})), "a mapped file")
			continue
		}
		if id, ok := m.id(); !ok {
			return false, errors.New("a mapping without device and inode number")
		} else if at, ok := s.devs[id.dev]; ok {
			s.stray(inode{at.stat, id.ino}, stray{process: pid, path: string(m.path), what: "a mapped file", sure: at.numbers})
		}
	}
	return len(text) == 0, nil
}

func (s *scan) mapsOf(pid string) ([]byte, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat(s.proc, pid+"/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	text, err := beneath.ReadInto(fd, s.names[:0], 0, biggestMaps)
	if cap(text) > cap(s.names) && cap(text) < 4<<20 {
		s.names = text[:0]
	}
	return text, err
}
