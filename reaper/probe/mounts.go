package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// mountView is one process's mountinfo that stands for all that show the same mounts, or what the
// kernel says of a mount namespace by a file of it.
type mountView struct {
	pid   string
	whole bool   // it has a line for "/", and the process is not known to be chrooted
	root  string // the process's root, where it is another than that of its mount namespace
	// byFile is true where the kernel told by the file of the namespace.
	byFile bool
	user   string                          // the user namespace of the process, once it was asked
	userOf func(pid string) (string, bool) // asks for it
	held   string                          // what holds the namespace, where no process is in it
}

// words names the mount namespace, for people.
func (v *mountView) words(procDir string) string {
	if v.held != "" {
		return "the mount namespace that " + v.held + " holds"
	}
	return "the mount namespace of PID " + procfs.Who(procDir, v.pid)
}

// mountMap is what all mount namespaces say about the wanted pods and staged volumes.
type mountMap struct {
	pods     map[parsers.PodUID]hit
	again    map[parsers.PodUID]hit // by a name that is the UID itself, and so not in quarantine
	elder    map[parsers.PodUID]hit // by the name of a quarantine entry
	below    map[string]hit         // by each path below plugins/ with a mount at it or below it
	named    map[string]hit         // by plugin, NUL and path component
	seen     map[string]bool        // paths below plugins/ that are filed already
	views    []*mountView
	ids      []uint64 // of all mounts that were read
	where    regions
	overlays map[string]overlayMount   // by device
	unsure   map[parsers.PodUID]string // why it is not known of one pod
	// pinned are the mount namespaces that something but a process holds, by mnt:[inode], and
	// unread how many of them could not be read.
	pinned map[string]pin
	unread int
	// confined is how many namespaces can have nothing of another pod, by what the runtime told.
	confined int
	err      error // something could not be read: what was not found is not known
}

func newMountMap() *mountMap {
	return &mountMap{
		pods: map[parsers.PodUID]hit{}, again: map[parsers.PodUID]hit{}, elder: map[parsers.PodUID]hit{},
		below: map[string]hit{}, named: map[string]hit{}, seen: map[string]bool{}, pinned: map[string]pin{},
		overlays: map[string]overlayMount{}, unsure: map[parsers.PodUID]string{},
	}
}

// origin says what was read.
func (m *mountMap) origin(procDir string) string {
	s := fmt.Sprintf("%s/*/mountinfo, %d mount namespaces", procDir, len(m.views))
	if m.unread > 0 {
		s += fmt.Sprintf(", %d without a process not read", m.unread)
	}
	if m.confined > 0 {
		s += fmt.Sprintf(", %d known by their container", m.confined)
	}
	return s
}

// fact answers for one pod.
func (m *mountMap) fact(uid parsers.PodUID, procDir string) policy.Fact {
	origin := m.origin(procDir)
	if h, ok := m.pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: h.words(procDir)}
	}
	if m.err != nil {
		return policy.Fact{Origin: origin, Detail: m.err.Error()}
	}
	if why, ok := m.unsure[uid]; ok {
		return policy.Fact{Origin: origin, Detail: why}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

// Mounts says for each UID whether a mount of any namespace names it. It returns in
// bounded time; what is not known by then is Unknown.
func (p *Probe) Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	w := parsers.PodSet{}
	for _, uid := range uids {
		w[uid] = true
	}
	m := p.mounts(ctx, w, nil)
	facts := make(map[parsers.PodUID]policy.Fact, len(uids))
	for _, uid := range uids {
		facts[uid] = m.fact(uid, p.cfg.ProcDir)
	}
	return facts
}

// mounts reads all of them, and those of the namespaces of which only a descriptor is known.
func (p *Probe) mounts(ctx context.Context, w parsers.PodSet, held map[string]string) *mountMap {
	m, err := bounded.Do(ctx, p.guard, "mounts", func() *mountMap { return p.readMounts(ctx, w, held) })
	if err != nil {
		return &mountMap{err: fmt.Errorf("cannot read the mounts: %w", err)}
	}
	return m
}

// readMounts reads the mounts of all mount namespaces that are known. They are told
// apart by the first line of mountinfo, which needs no capability: the mount ID in it is
// the same in two processes only where they share the namespace. The whole line is the
// key, so that a process with another root is a view of its own, and a namespace that
// takes over the mount ID of one that ended during the scan is not taken for it.
func (p *Probe) readMounts(ctx context.Context, w parsers.PodSet, held map[string]string) *mountMap {
	m := newMountMap()
	proc, err := procfs.Open(p.cfg.ProcDir)
	if err != nil {
		m.err = err
		return m
	}
	defer beneath.Close(proc)
	s := mountScan{Probe: p, proc: proc, known: map[string]bool{}, buf: make([]byte, 64<<10)}
	m.where = s.findRegions()
	first := false
	var unread error
	_, err = procfs.Each(ctx, p.cfg.ProcDir, proc, func(pid string) (ended bool) {
		err := s.process(m, pid, w)
		if err != nil && !procfs.Vanished(err) {
			unread = fmt.Errorf("cannot read the mounts of PID %s: %w", pid, err)
		}
		first = first || err == nil && pid == "1"
		return procfs.Vanished(err)
	})
	m.err = cmp.Or(err, unread)
	if !first && m.err == nil {
		m.err = fmt.Errorf("PID 1 is not seen in %s", p.cfg.ProcDir)
	}
	if m.err == nil {
		m.err = s.unseen(ctx, m, w)
	}
	for link, fd := range held {
		if _, ok := m.pinned[link]; !ok {
			pid, _, _ := strings.Cut(fd, "/")
			m.pinned[link] = pin{view: &mountView{pid: pid}, fd: fd}
		}
	}
	if err := s.pins(m, w); m.err == nil {
		m.err = err
	}
	s.layers(ctx, m, w)
	m.views = s.views
	return m
}

// mountScan is one pass over all processes.
type mountScan struct {
	*Probe
	proc  int
	known map[string]bool // by first line
	views []*mountView
	buf   []byte
	specs map[string]*spec // by container, nil where the runtime did not tell
}

// firstBlock is enough for the first line of nearly every mountinfo; the kernel makes no
// more lines than are asked for.
const firstBlock = 512

// process reads the mounts that a process sees, and those that a thread of it sees in a
// mount namespace of its own. The error is one of vanished where nothing could be read.
func (s *mountScan) process(m *mountMap, pid string, w parsers.PodSet) error {
	first := s.thread(m, pid, w)
	if first != nil && !procfs.Vanished(first) {
		return first
	}
	others, err := procfs.Threads(s.proc, pid)
	if err != nil || len(others) == 0 {
		return cmp.Or(err, first)
	}
	link, known := s.namespace(pid)
	for _, tid := range others {
		// The link costs a tenth of a mountinfo. Where it cannot be read, that must be.
		if l, ok := s.namespace(tid); known && first == nil && ok && l == link {
			continue
		}
		switch err := s.thread(m, tid, w); {
		case err == nil:
			first = nil
		case !procfs.Vanished(err):
			return err
		}
	}
	return first
}

// thread reads the beginning of one mountinfo, and all of it where the view is new. The
// name is that of a process or a thread, below the proc directory.
func (s *mountScan) thread(m *mountMap, pid string, w parsers.PodSet) error {
	fd, err := s.open1(pid)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
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
	root, err := s.root(pid)
	if err != nil {
		return err
	}
	s.known[string(line)] = true
	text, err := s.rest(fd, n)
	if err == nil && s.rereads {
		text, err = s.agreed(pid, text)
	}
	if err != nil {
		return err
	}
	v := &mountView{pid: pid, userOf: s.userNamespace}
	s.views = append(s.views, v)
	err = m.scanMounts(v, text, w)
	v.root, v.whole = root, v.whole && root == ""
	return err
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
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(s.proc, pid+"/ns/mnt", buf[:]) })
	if err != nil {
		return "", false
	}
	return string(buf[:n]), true
}

func (s *mountScan) open1(pid string) (int, error) {
	return beneath.Retry(func() (int, error) {
		return unix.Openat(s.proc, pid+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
}

// fill reads from fd into buf[from:to], at most once, and returns where it got to.
func (s *mountScan) fill(fd, from, to int) (int, error) {
	if to > len(s.buf) {
		s.buf = append(s.buf, make([]byte, max(to-len(s.buf), len(s.buf)))...)
	}
	n, err := beneath.Retry(func() (int, error) { return unix.Read(fd, s.buf[from:to]) })
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
		beneath.Close(fd)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(text, last) {
			return text, nil
		}
		last = append(last[:0], text...)
	}
	return nil, errChanging
}

// umount is the command that takes the pod's mount away, "" where there is none. What a container
// has mounted at a path of its own goes with the container.
func (m *mountMap) umount(uid parsers.PodUID) string {
	h, ok := m.pods[uid]
	if !ok || !strings.Contains(h.target, "/pods/"+string(uid)+"/") {
		return ""
	}
	return policy.UmountCommand(h.target, h.view.pid)
}
