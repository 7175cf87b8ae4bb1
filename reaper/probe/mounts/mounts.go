package mounts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// view is one process's mountinfo, which represents all that show the same mounts, or the kernel's listing of a mount
// namespace by its file.
type view struct {
	pid    string
	link   string // its mount namespace, "" if unknown
	first  string // the ID of the first mount that it shows
	whole  bool   // it has a line for "/", and the process is not known to be chrooted
	root   string // the process's root, if that is not the root of its mount namespace
	byFile bool   // listed by the file of the namespace
	apart  bool   // the process is in another user namespace: mounting there needs no privilege on the node
	held   string // what holds the namespace, if no process is in it
}

// words returns the name of the mount namespace, for messages.
func (v *view) words(procDir string) string {
	if v.held != "" {
		return "the mount namespace that " + v.held + " holds"
	}
	return "the mount namespace of PID " + procfs.Who(procDir, v.pid)
}

// user returns the name of the user of the view's mounts, for messages.
func (v *view) user(procDir string) string {
	if v.held != "" {
		return v.words(procDir)
	}
	return "PID " + procfs.Who(procDir, v.pid)
}

// Answer has the mounts of the wanted pods and staged volumes in all mount namespaces.
type Answer struct {
	Pods   map[parsers.PodUID]Hit    // a mount that names the pod, or an entry of it in quarantine
	Again  map[parsers.PodUID]Hit    // a mount that names the UID itself, and so no quarantine entry
	Below  map[string]Hit            // for each path below plugins/, a mount at it or below it
	Unsure map[parsers.PodUID]string // why the mounts of one pod are unknown
	Err    error                     // something could not be read: what was not found is unknown

	// beyond has, for each pod, a mount that is not below its directory: unmounting the pod does not remove it.
	beyond map[parsers.PodUID]Hit
	elder  map[parsers.PodUID]Hit // a mount that names a quarantine entry
	named  map[string]Hit         // by plugin, NUL and path component
	seen   map[string]bool        // paths below plugins/ that are in Below and named
	views  []*view
	where  regions
	// pinned are the mount namespaces that a bind mount or a descriptor holds, by mnt:[inode], and
	// unread is how many of them could not be read.
	pinned map[string]pin
	unread int
	// confined are the pods with a container whose mount namespace was not read. According to the runtime
	// it can have nothing of another pod.
	confined  map[parsers.PodUID]bool
	collector *collector
	procDir   string
	cgroups   string // where they are mounted
	origin    string // what was read
}

func newAnswer(procDir string) *Answer {
	return &Answer{
		Pods: map[parsers.PodUID]Hit{}, Again: map[parsers.PodUID]Hit{}, beyond: map[parsers.PodUID]Hit{}, elder: map[parsers.PodUID]Hit{},
		Below: map[string]Hit{}, named: map[string]Hit{}, seen: map[string]bool{}, pinned: map[string]pin{}, confined: map[parsers.PodUID]bool{},
		Unsure: map[parsers.PodUID]string{}, procDir: procDir,
	}
}

// Namespaces returns how many mount namespaces were read.
func (m *Answer) Namespaces() int { return len(m.views) }

// InPlugin returns a mount of an in-tree volume plugin whose path has a volume's name.
func (m *Answer) InPlugin(plugin, volume string) (Hit, bool) {
	h, ok := m.named[plugin+"\x00"+volume]
	return h, ok
}

func (m *Answer) sources() string {
	s := m.procDir + "/*/mountinfo, " + policy.Count(len(m.views), "mount namespace")
	if m.unread > 0 {
		s += fmt.Sprintf(", %d without a process not read", m.unread)
	}
	if len(m.confined) > 0 {
		s += ", containers of " + policy.Count(len(m.confined), "pod") + " known by the runtime"
	}
	return s
}

// Fact reports whether anything is mounted of the pod. It shows a mount that unmounting the pod does not remove, if there
// is one.
func (m *Answer) Fact(uid parsers.PodUID) policy.Fact {
	h, ok := m.Pods[uid]
	if beyond, found := m.beyond[uid]; found && h.view.pid == "1" {
		h = beyond
	}
	return m.fact(uid, h, ok)
}

// Parked is Fact for the pod's entry in quarantine. Mounts of the pod's new directory do not count.
func (m *Answer) Parked(uid parsers.PodUID) policy.Fact {
	if h, ok := m.elder[uid]; ok {
		return m.fact(uid, h, true)
	}
	h, ok := m.Pods[uid]
	_, again := m.Again[uid]
	return m.fact(uid, h, ok && !again)
}

// Use reports the mounts of a pod directory that was made again. A mount of the parked one has another name.
func (m *Answer) Use(uid parsers.PodUID) reading.NewUse {
	u := reading.NewUse{Doubt: m.Unsure[uid], Err: m.Err}
	if h, ok := m.Again[uid]; ok {
		u.User = h.Words()
	}
	return u
}

func (m *Answer) fact(uid parsers.PodUID, h Hit, mounted bool) policy.Fact {
	if mounted {
		return policy.Fact{Truth: policy.Yes, Origin: m.origin, Detail: h.Words()}
	}
	if m.Err != nil {
		return policy.Fact{Origin: m.origin, Detail: m.Err.Error()}
	}
	if why, ok := m.Unsure[uid]; ok {
		return policy.Fact{Origin: m.origin, Detail: why}
	}
	if m.confined[uid] {
		return policy.Fact{Origin: m.origin, Detail: "a chrooted process hides the mounts of one of its own containers"}
	}
	return policy.Fact{Truth: policy.No, Origin: m.origin}
}

// Reader reads the mounts. It keeps nothing from one look to the next.
type Reader struct {
	ProcDir                string
	RootDir, QuarantineDir string // the kubelet's root directory, and that of parked pods
	CgroupRoot             string
	Guard                  *bounded.Guard

	collector *collector // for Below, nil for a look
	// Tests simulate an older kernel or fewer capabilities with these.
	rereads, noListing, noEntering bool
}

// Read reads the mounts of all namespaces for the pods of w. The sockets are those of runtimes, which describe containers
// whose mounts are hidden. It returns in bounded time.
func (r *Reader) Read(ctx context.Context, w parsers.PodSet, sockets []string) *Answer {
	return r.read(ctx, w, sockets, nil)
}

// read also reads the namespaces in held, which are known only by a descriptor: mnt:[N] to its path.
func (r *Reader) read(ctx context.Context, w parsers.PodSet, sockets []string, held map[string]string) *Answer {
	m, err := bounded.Do(ctx, r.Guard, "mounts", func() *Answer { return r.readAll(ctx, w, sockets, held) })
	if err != nil {
		m = &Answer{Err: fmt.Errorf("cannot read the mounts: %w", err), procDir: r.ProcDir}
		m.origin = m.sources()
	}
	return m
}

// readAll reads the mounts of all known mount namespaces. The key of each view is the first line of mountinfo
// (procfs.FirstMount). So a process with another root is a view of its own, and a namespace that reuses the mount ID of
// one that ended during the scan is not mistaken for it.
func (r *Reader) readAll(ctx context.Context, w parsers.PodSet, sockets []string, held map[string]string) *Answer {
	m := newAnswer(r.ProcDir)
	m.cgroups, m.collector = r.CgroupRoot, r.collector.fresh()
	proc, err := procfs.Open(r.ProcDir)
	if err != nil {
		m.Err = err
		return m
	}
	defer beneath.Close(proc)
	s := r.newScan(proc, sockets)
	s.collector, s.where = m.collector, s.findRegions()
	m.where = s.where
	first := false
	_, err = s.Each(ctx, func(p *procfs.Process) (ended bool, _ error) {
		err := s.process(m, p, w)
		first = first || err == nil && p.PID == "1"
		if errors.Is(err, procfs.ErrShare) {
			return false, err
		}
		if err != nil && !procfs.Vanished(err) && m.Err == nil {
			m.Err = fmt.Errorf("cannot read the mounts of PID %s: %w", p.PID, err)
		}
		return procfs.Vanished(err), nil
	}, func(p *procfs.Process, why error) { s.doubt(m, p.PID, w, why) })
	m.Err = cmp.Or(err, m.Err)
	if !first && m.Err == nil {
		m.Err = fmt.Errorf("PID 1 is not seen in %s", r.ProcDir)
	}
	if m.Err == nil {
		m.Err = s.readHidden(ctx, m, w)
	}
	for link, fd := range held {
		if _, ok := m.pinned[link]; !ok {
			pid, _, _ := strings.Cut(fd, "/")
			m.pinned[link] = pin{view: &view{pid: pid}, fd: fd}
		}
	}
	if err := s.readPins(m, w); m.Err == nil {
		m.Err = err
	}
	m.views = s.views
	m.origin = m.sources()
	return m
}

// scan is one pass over all processes.
type scan struct {
	*Reader
	*procfs.Shares
	proc      int
	seed      maphash.Seed
	collector *collector
	known     map[uint64]bool // by the hash of the first line
	views     []*view
	where     regions
	buf       []byte
	sockets   []string         // of runtimes
	specs     map[string]*spec // by container, nil if the runtime does not have it
}

func (r *Reader) newScan(proc int, sockets []string) *scan {
	shares := procfs.NewShares(r.ProcDir, proc, r.CgroupRoot, r.Guard.Limit())
	shares.Mounts = true
	return &scan{
		Reader: r, Shares: shares, proc: proc, sockets: sockets, seed: maphash.MakeSeed(), known: map[uint64]bool{}, buf: make([]byte, 64<<10),
	}
}

// process reads the mounts that a process sees, and those that its threads see in mount
// namespaces of their own. The error means procfs.Vanished if nothing could be read.
func (s *scan) process(m *Answer, p *procfs.Process, w parsers.PodSet) error {
	pid := p.PID
	first := s.thread(m, p, pid, w)
	if first != nil && !procfs.Vanished(first) {
		return first
	}
	others, err := procfs.Threads(s.proc, pid)
	if err != nil || len(others) == 0 {
		return cmp.Or(err, first)
	}
	link, known := s.namespace(pid)
	for _, tid := range others {
		if err := p.Over(); err != nil {
			return err
		}
		// The link costs a tenth of a mountinfo.
		if l, ok := s.namespace(tid); known && first == nil && ok && l == link {
			continue
		}
		switch err := s.thread(m, p, tid, w); {
		case err == nil:
			first = nil
		case !procfs.Vanished(err):
			return err
		}
	}
	return first
}

// thread reads the first line of one mountinfo, and all of it if the view is new. pid is the
// name of a process or a thread below the proc directory.
func (s *scan) thread(m *Answer, p *procfs.Process, pid string, w parsers.PodSet) error {
	fd, err := beneath.OpenTrusted(s.proc, pid+"/mountinfo", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	line, err := procfs.FirstMount(fd, s.buf)
	if err != nil {
		return err
	}
	key := maphash.Bytes(s.seed, line)
	if len(line) > 0 && s.known[key] {
		return nil
	}
	root, err := s.root(pid)
	if err != nil {
		return err
	}
	t, err := s.readStable(p, w, s.lines(fd))
	first, _, _ := bytes.Cut(line, []byte{' '})
	v := &view{pid: pid, first: string(first), apart: s.Apart(pid)}
	if found := m.scanMounts(v, p.Hold, &t, w); err == nil {
		err = found
	}
	if err != nil {
		return err
	}
	s.known[key] = true
	v.root, v.whole = root, v.whole && root == ""
	v.link, _ = s.namespace(pid)
	s.views = append(s.views, v)
	return nil
}

// wholeNamespaces returns the namespaces that were read completely, and allNamespaces also the others.
func wholeNamespaces(views []*view) map[string]bool {
	return namespacesOf(views, func(v *view) bool { return v.whole })
}

func allNamespaces(views []*view) map[string]bool {
	return namespacesOf(views, func(*view) bool { return true })
}

func namespacesOf(views []*view, with func(v *view) bool) map[string]bool {
	links := map[string]bool{}
	for _, v := range views {
		if v.link != "" && with(v) {
			links[v.link] = true
		}
	}
	return links
}

func (s *scan) namespace(pid string) (string, bool) {
	link, err := procfs.Namespace(s.proc, pid+"/ns/mnt")
	return link, err == nil
}

// readStable reads a table, and reads until two readings agree if the kernel may lose lines.
func (s *scan) readStable(p *procfs.Process, w parsers.PodSet, from lines) (table, error) {
	last, err := s.readTable(p, w, from)
	if err != nil || !s.losesLines() {
		return last, err
	}
	for range 5 {
		t, err := s.readTable(p, w, from)
		same := func(a, b procfs.MountLine) bool { return bytes.Equal(a.Text, b.Text) }
		if err != nil || slices.EqualFunc(t.lines, last.lines, same) {
			return t, err
		}
		last = t
	}
	return table{}, errChanging
}

// losesLines reports whether the kernel may lose lines of mountinfo: before Linux 5.8 a mount that comes or goes between
// two reads can hide another (fixed by 9f6c61f96f2d).
func (r *Reader) losesLines() bool { return r.rereads || oldMountinfo() }

var oldMountinfo = sync.OnceValue(func() bool { return kernelOlderThan(5, 8) })

// kernelOlderThan compares the release of uname(2). An unknown release counts as old.
func kernelOlderThan(major, minor int) bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return true
	}
	var a, b int
	if n, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); n != 2 || err != nil {
		return true
	}
	return a < major || a == major && b < minor
}
