package openfiles

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
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
// the file system, which on btrfs is not that of statx; (5) is the inode number. In (6) only a
// newline is escaped, as octal.
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

// id returns device and inode number, and false if they are malformed.
func (m mapping) id() (inode, bool) {
	major, minor, ok := bytes.Cut(m.dev, []byte{':'})
	a, err := strconv.ParseUint(string(major), 16, 32)
	b, err2 := strconv.ParseUint(string(minor), 16, 32)
	ino, err3 := strconv.ParseUint(string(m.ino), 10, 64)
	return inode{unix.Mkdev(uint32(a), uint32(b)), ino}, ok && errors.Join(err, err2, err3) == nil
}

// mapsOf reads the mappings of a process, which all its threads share. If its first thread has
// ended, it reads those of another.
func (s *scan) mapsOf(p *procfs.Process) (ended bool, _ error) {
	some, err := s.mapsAt(p, p.PID)
	if err == nil && !some {
		others, err := procfs.Threads(s.proc, p.PID)
		if err != nil {
			return false, err
		}
		for _, tid := range others {
			if some, err = s.mapsAt(p, tid); err == nil && some || errors.Is(err, procfs.ErrShare) {
				break
			}
		}
		if errors.Is(err, procfs.ErrShare) {
			return false, err
		}
	}
	if err != nil {
		_, ended, err = s.classify(p.PID, err)
		return ended, err
	}
	return !some, nil
}

// mapsAt checks the mapped files of a process or thread. The read waits for a process that changes its memory or
// executes a program, which may take any time. So it runs in a goroutine, at most one for each payer, and after the
// process's share has ended it is left behind.
func (s *scan) mapsAt(p *procfs.Process, pid string) (some bool, _ error) {
	reader, until := s.maps, p.Until // a goroutine left behind may use nothing else
	limit := time.Until(until) + s.Guard.Limit()/32
	m, err := s.run.Within(s.places.ctx, "mappings of "+p.Payer(), limit, func() mappings { return reader.read(pid, until) })
	if errors.Is(err, bounded.ErrHangs) || errors.Is(err, bounded.ErrStuck) {
		s.maps = s.newMapReader() // the other is still in use
		return false, procfs.ErrShare
	}
	if err != nil {
		return false, err
	}
	for _, f := range m.found {
		sure := s.devs[f.id.dev]
		if f.named {
			s.hint(p, link{process: pid, id: f.id, sure: sure}, f.path, "a mapped file")
		}
		if _, known := s.strays[f.id]; known || !sure {
			continue
		}
		if err := p.Hold(len(f.path)); err != nil {
			return m.some, err
		}
		if len(s.strays) >= mostStrays && !s.whose(p).near {
			return m.some, procfs.ErrShare
		}
		s.strays[f.id] = stray{process: pid, path: f.path, what: "a mapped file"}
	}
	return m.some, m.err
}

// mappings has the mapped files of one process that may be a pod's.
type mappings struct {
	some  bool // it has mappings
	found []found
	err   error
}

// found is a mapped file that may be a pod's.
type found struct {
	id    inode
	path  string
	named bool // the path names a pod
}

// mapReader reads the mappings of one process after another. It shares no state with the scan.
type mapReader struct {
	procDir string
	devs    map[uint64]bool
	wanted  parsers.PodSet
	unsure  bool // a file of the pods may have other numbers in maps than in statx
	text    *bufio.Reader
	met     map[inode]bool
	named   int
}

func (s *scan) newMapReader() *mapReader {
	r := &mapReader{procDir: s.ProcDir, devs: s.devs, wanted: s.wanted, text: bufio.NewReaderSize(nil, 64<<10), met: map[inode]bool{}}
	for _, sure := range s.devs {
		r.unsure = r.unsure || !sure
	}
	return r
}

// read holds no more than one block: the process chooses the number of lines and the length of their paths.
func (r *mapReader) read(pid string, until time.Time) (m mappings) {
	var fd int
	fd, m.err = beneath.OpenTrusted(unix.AT_FDCWD, r.procDir+"/"+pid+"/maps", unix.O_RDONLY)
	if m.err != nil {
		return m
	}
	defer beneath.Close(fd)
	clear(r.met)
	r.named = 0
	r.text.Reset(blocks(fd))
	for {
		line, err := r.text.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut {
			if !errors.Is(err, io.EOF) {
				m.err = err
			}
			return m
		}
		m.some = true
		if m.err = r.mapping(&m, bytes.TrimSuffix(line, []byte{'\n'})); m.err == nil && time.Now().After(until) {
			m.err = procfs.ErrShare
		}
		for cut && m.err == nil { // skip the rest of the line: the kernel does not limit the path
			_, err = r.text.ReadSlice('\n')
			cut = errors.Is(err, bufio.ErrBufferFull)
		}
		if m.err != nil {
			return m
		}
	}
}

const (
	mostNamed    = 1000 // files of one process whose paths name pods
	longestStray = 256  // bytes of another path
)

// mapping adds the file of one line if it may be a pod's. A file of another file system is none,
// whatever its name is.
func (r *mapReader) mapping(to *mappings, line []byte) error {
	m, ok := parseMapping(line)
	if !ok || string(m.ino) == "0" {
		return nil
	}
	id, ok := m.id()
	if !ok {
		return errors.New("a mapping without device and inode number")
	}
	sure := r.devs[id.dev]
	if !sure && !r.unsure || sure && r.met[id] {
		return nil
	}
	var uids [4]parsers.PodUID
	named := len(r.wanted.InPath(uids[:0], m.path)) > 0
	if !named && !sure {
		return nil
	}
	if r.met[id] = true; len(r.met) > procfs.MostHeld {
		return procfs.ErrShare
	}
	f := found{id: id, named: named}
	if named {
		if r.named++; r.named > mostNamed {
			return procfs.ErrShare
		}
		f.path = string(bytes.ReplaceAll(m.path, []byte(`\012`), []byte{'\n'}))
	} else {
		f.path = string(m.path[:min(len(m.path), longestStray)])
	}
	to.found = append(to.found, f)
	return nil
}

// blocks reads an open file. Unlike os.File it does not close it.
type blocks int

func (b blocks) Read(p []byte) (int, error) {
	n, err := beneath.Retry(func() (int, error) { return unix.Read(int(b), p) })
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}
