package openfiles

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

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
	s.text = bufio.NewReaderSize(nil, 64<<10)
	for _, d := range s.devs {
		s.unsure = s.unsure || !d.numbers
	}
	s.part = "maps "
	_, err = procfs.EachLast(ctx, r.ProcDir, proc, s.last, func(pid string) (ended bool) {
		now.Store(pid)
		err := s.begin(pid)
		if err == nil {
			ended, err = s.maps(pid)
		}
		s.end(pid, err)
		err = s.over(pid, err)
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
func (s *scan) maps(pid string) (ended bool, _ error) {
	some, err := s.mapsOf(pid)
	if err == nil && !some {
		others, err := procfs.Threads(s.proc, pid)
		if err != nil {
			return false, err
		}
		for _, tid := range others {
			if some, err = s.mapsOf(tid); err == nil && some || errors.Is(err, errShare) {
				break
			}
		}
		if errors.Is(err, errShare) {
			return false, err
		}
	}
	if err != nil {
		_, ended, err = s.class(pid, err)
		return ended, err
	}
	return !some, nil
}

// mapsOf reads mappings block by block, and says whether there are any. What the process chooses
// is their number and the length of their paths: so no more than one line is held.
func (s *scan) mapsOf(pid string) (some bool, _ error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat(s.proc, pid+"/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return false, err
	}
	defer beneath.Close(fd)
	s.text.Reset(blocks(fd))
	var last inode
	for size := 0; ; {
		line, err := s.text.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if errors.Is(err, io.EOF) {
			return some, nil
		}
		if err != nil && !cut {
			return some, err
		}
		some = true
		if size += len(line); size > s.limits.bytes || time.Now().After(s.until) {
			return some, errShare
		}
		if last, err = s.mapping(pid, bytes.TrimSuffix(line, []byte{'\n'}), last); err != nil {
			return some, err
		}
		for ; cut; size += len(line) { // the kernel gives a mapping's path whole, however deep its directory is
			line, err = s.text.ReadSlice('\n')
			cut = errors.Is(err, bufio.ErrBufferFull)
		}
	}
}

// mapping follows up one line. Device and inode number come before the path: a file of another
// file system is no pod's, whatever its name is.
func (s *scan) mapping(pid string, line []byte, last inode) (inode, error) {
	m, ok := parseMapping(line)
	if !ok || string(m.ino) == "0" {
		return last, nil
	}
	id, ok := m.id()
	if !ok {
		return last, errors.New("a mapping without device and inode number")
	}
	at, ours := s.devs[id.dev]
	if id == last || !ours && !s.unsure {
		return id, nil
	}
	var found [4]parsers.PodUID
	if len(s.wanted.InPath(found[:0], m.path)) > 0 {
		to := link{process: pid, id: inode{at.stat, id.ino}, sure: ours && at.numbers}
		s.hint(to, string(bytes.ReplaceAll(m.path, []byte(`\012`), []byte{'\n'})), "a mapped file")
		if !to.sure {
			return id, nil
		}
	}
	if !ours {
		return id, nil
	}
	return id, s.remember(inode{at.stat, id.ino}, stray{process: pid, path: string(m.path), what: "a mapped file", sure: at.numbers})
}

// blocks reads a file as it is asked for.
type blocks int

func (b blocks) Read(p []byte) (int, error) {
	n, err := beneath.Retry(func() (int, error) { return unix.Read(int(b), p) })
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}
