package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// view is one process's mountinfo that stands for all that show the same mounts.
type view struct {
	pid   string
	whole bool // it has a line for "/": the process is not chrooted below a mount
}

// who names the process, with its command where that can be read.
func (v *view) who(procDir string) string {
	b, err := os.ReadFile(procDir + "/" + v.pid + "/comm")
	if err != nil || len(b) > 64 {
		return v.pid
	}
	return fmt.Sprintf("%s (%s)", v.pid, clean(string(bytes.TrimSpace(b))))
}

// mountMap is what all mount namespaces say about the wanted pods and staged volumes.
type mountMap struct {
	pods  map[parsers.PodUID]hit
	below map[string]hit  // by each path below plugins/ with a mount at it or below it
	named map[string]hit  // by plugin, NUL and path component
	seen  map[string]bool // paths below plugins/ that are filed already
	views int
	err   error // something could not be read: what was not found is not known
}

// fact answers for one pod.
func (m *mountMap) fact(uid parsers.PodUID, procDir string) policy.Fact {
	origin := fmt.Sprintf("%s/*/mountinfo, %d mount namespaces", procDir, m.views)
	if h, ok := m.pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: h.words(procDir)}
	}
	if m.err != nil {
		return policy.Fact{Origin: origin, Detail: m.err.Error()}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

// Mounts says for each UID whether a mount of any namespace names it. It returns in
// bounded time; what is not known by then is Unknown.
func (p *Probe) Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	w := wanted{}
	for _, uid := range uids {
		w[uid] = true
	}
	m := p.mounts(ctx, w)
	facts := make(map[parsers.PodUID]policy.Fact, len(uids))
	for _, uid := range uids {
		facts[uid] = m.fact(uid, p.cfg.ProcDir)
	}
	return facts
}

func (p *Probe) mounts(ctx context.Context, w wanted) *mountMap {
	m, err := guarded(ctx, &p.guard, "mounts", p.patience, func() *mountMap { return p.readMounts(ctx, w) })
	if err != nil {
		return &mountMap{err: fmt.Errorf("cannot read the mounts: %w", err)}
	}
	return m
}

// readMounts reads the mounts of all mount namespaces that have a process. They are told
// apart by the first line of mountinfo, which needs no capability: the mount ID in it is
// the same in two processes only where they share the namespace. The whole line is the
// key, so that a process with another root is a view of its own, and a namespace that
// takes over the mount ID of one that ended during the scan is not taken for it.
//
// A namespace held by a file or a bind mount alone has no process and is not seen.
func (p *Probe) readMounts(ctx context.Context, w wanted) *mountMap {
	m := &mountMap{
		pods: map[parsers.PodUID]hit{}, below: map[string]hit{}, named: map[string]hit{}, seen: map[string]bool{},
	}
	proc, pids, err := p.processes()
	if err != nil {
		m.err = err
		return m
	}
	defer closeFD(proc)
	s := mountScan{Probe: p, proc: proc, known: map[string]bool{}, buf: make([]byte, 64<<10)}
	first := false
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			m.err = err
			return m
		}
		err := s.process(m, pid, w)
		if err != nil && !vanished(err) {
			m.err = fmt.Errorf("cannot read the mounts of PID %s: %w", pid, err)
		}
		first = first || err == nil && pid == "1"
	}
	if !first && m.err == nil {
		m.err = fmt.Errorf("PID 1 is not seen in %s", p.cfg.ProcDir)
	}
	if m.err == nil {
		m.err = s.unseen()
	}
	m.views = len(s.known)
	return m
}

// vanished: ENOENT and ESRCH for a process that ended, EINVAL for a zombie.
func vanished(err error) bool {
	return gone(err) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// processes opens the proc directory and lists the PIDs.
func (p *Probe) processes() (int, []string, error) {
	proc, err := retry(func() (int, error) {
		return unix.Open(p.cfg.ProcDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, nil, fmt.Errorf("cannot list processes: %w", pathError("open", p.cfg.ProcDir, err))
	}
	var pids []string
	err = readNames(proc, make([]byte, 32<<10), func(d dirent) bool {
		if n := d.name; n[0] >= '1' && n[0] <= '9' {
			if _, err := strconv.ParseUint(n, 10, 32); err == nil {
				pids = append(pids, n)
			}
		}
		return true
	})
	if err != nil {
		closeFD(proc)
		return -1, nil, fmt.Errorf("cannot list processes: %w", pathError("getdents", p.cfg.ProcDir, err))
	}
	return proc, pids, nil
}

// mountScan is one pass over all processes.
type mountScan struct {
	*Probe
	proc  int
	known map[string]bool // by first line
	views []*view
	buf   []byte
}

// firstBlock is enough for the first line of nearly every mountinfo; the kernel makes no
// more lines than are asked for.
const firstBlock = 512

// process reads the beginning of one mountinfo, and all of it where the view is new.
func (s *mountScan) process(m *mountMap, pid string, w wanted) error {
	fd, err := s.open1(pid)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	n, err := s.fill(fd, 0, firstBlock)
	if err != nil {
		return err
	}
	for !bytes.Contains(s.buf[:n], []byte{'\n'}) {
		more, err := s.fill(fd, n, n+firstBlock)
		if err != nil {
			return err
		}
		if more == n {
			break
		}
		n = more
	}
	line, _, _ := bytes.Cut(s.buf[:n], []byte{'\n'})
	if len(line) > 0 && s.known[string(line)] {
		return nil
	}
	s.known[string(line)] = true
	text, err := s.rest(fd, n)
	if err == nil && s.rereads {
		text, err = s.agreed(pid, text)
	}
	if err != nil {
		return err
	}
	v := &view{pid: pid}
	s.views = append(s.views, v)
	return m.scanMounts(v, text, w)
}

// unseen looks for a mount namespace of which only a process with another root is left:
// its mountinfo shows nothing outside that root. The link needs CAP_SYS_PTRACE; where it
// cannot be read, the process counts as a view of its own and no more.
func (s *mountScan) unseen() error {
	var links map[string]bool
	for _, v := range s.views {
		if v.whole {
			continue
		}
		link, ok := s.namespace(v.pid)
		if !ok {
			continue
		}
		if links == nil {
			links = s.wholeNamespaces()
		}
		if !links[link] {
			return fmt.Errorf("the mount namespace of PID %s is seen by a process with another root only", v.who(s.cfg.ProcDir))
		}
	}
	return nil
}

func (s *mountScan) wholeNamespaces() map[string]bool {
	links := map[string]bool{}
	for _, v := range s.views {
		if link, ok := s.namespace(v.pid); ok && v.whole {
			links[link] = true
		}
	}
	return links
}

func (s *mountScan) namespace(pid string) (string, bool) {
	var buf [64]byte
	n, err := retry(func() (int, error) { return unix.Readlinkat(s.proc, pid+"/ns/mnt", buf[:]) })
	if err != nil {
		return "", false
	}
	return string(buf[:n]), true
}

func (s *mountScan) open1(pid string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(s.proc, pid+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
}

// fill reads from fd into buf[from:to], at most once, and returns where it got to.
func (s *mountScan) fill(fd, from, to int) (int, error) {
	if to > len(s.buf) {
		s.buf = append(s.buf, make([]byte, max(to-len(s.buf), len(s.buf)))...)
	}
	n, err := retry(func() (int, error) { return unix.Read(fd, s.buf[from:to]) })
	if err != nil {
		return from, err
	}
	return from + n, nil
}

// biggestMountinfo is far above what a node can hold (100,000 mounts, the kernel's limit
// for one namespace, at 300 bytes).
const biggestMountinfo = 128 << 20

func (s *mountScan) rest(fd, from int) ([]byte, error) {
	for {
		if from >= biggestMountinfo {
			return nil, errors.New("mountinfo is longer than 128 MiB")
		}
		n, err := s.fill(fd, from, max(len(s.buf), from+32<<10))
		if err != nil {
			return nil, err
		}
		if n == from {
			return s.buf[:n], nil
		}
		from = n
	}
}

// agreed reads until two readings agree: before Linux 5.8 a mount that comes or goes
// between two reads can hide another (fixed by 9f6c61f96f2d).
func (s *mountScan) agreed(pid string, text []byte) ([]byte, error) {
	last := bytes.Clone(text)
	for range 5 {
		fd, err := s.open1(pid)
		if err != nil {
			return nil, err
		}
		text, err = s.rest(fd, 0)
		closeFD(fd)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(text, last) {
			return text, nil
		}
		last = append(last[:0], text...)
	}
	return nil, errors.New("no two readings agree")
}
