package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// openFiles are the processes that hold something of a wanted pod.
type openFiles struct {
	pods     map[parsers.PodUID]string
	doubts   map[parsers.PodUID]string // what names the pod, and may hold something of it
	again    map[parsers.PodUID]string // what names the pod by its UID, and so not in quarantine
	strays   map[inode]stray
	places   *places           // to follow strays
	devs     map[uint64]device // the devices of the pods' files, as /proc and as statx has them
	detached detachedFiles
	read     int  // processes that could be read, ourselves left out
	refused  int  // processes that could not
	alone    bool // this process is PID 1 and the only one of its namespace
	err      error
}

// fact answers for a pod by the paths that name it.
func (u *openFiles) fact(uid parsers.PodUID, procDir string) policy.Fact {
	return u.fileUse(uid).Fact(u.origin(procDir))
}

func (u *openFiles) origin(procDir string) string {
	return fmt.Sprintf("%s/*/{cwd,root,exe,fd}, %d processes", procDir, u.read)
}

func (u *openFiles) fileUse(uid parsers.PodUID) policy.FileUse {
	return policy.FileUse{User: u.pods[uid], Doubt: u.doubts[uid], Err: u.err, Read: u.read, Refused: u.refused, Alone: u.alone}
}

// use answers for a directory that was made again: what is held of its elder has another name.
func (u *openFiles) use(uid parsers.PodUID) policy.NewUse {
	again := policy.NewUse{User: u.again[uid], Doubt: u.doubts[uid], Err: u.err}
	if words := u.pods[uid]; again.User == "" && parsers.BareUID([]byte(words), uid) {
		again.User = words
	}
	return again
}

func (p *Probe) openFiles(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *openFiles {
	var wg sync.WaitGroup
	var m *openFiles
	wg.Go(func() { m = p.mapped(ctx, pods, quarantine, w) })
	u := p.opened(ctx, pods, quarantine, w)
	wg.Wait()
	for uid, what := range m.pods {
		if u.pods[uid] == "" {
			u.pods[uid] = what
		}
	}
	maps.Copy(u.doubts, m.doubts)
	for id, held := range m.strays {
		if _, ok := u.strays[id]; !ok {
			u.strays[id] = held
		}
	}
	u.err = cmp.Or(u.err, m.err)
	return u
}

// part says whether the node may be a part of a machine.
func (p *Probe) part() bool {
	link, err := os.Readlink(p.cfg.ProcDir + "/self/ns/pid")
	return p.cfg.NodeNamespacesSelf || err == nil && link != procfs.InitialPIDNamespace
}

func newOpenFiles(err error) *openFiles {
	return &openFiles{
		pods: map[parsers.PodUID]string{}, doubts: map[parsers.PodUID]string{}, again: map[parsers.PodUID]string{},
		strays: map[inode]stray{}, err: err,
	}
}

func (p *Probe) opened(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *openFiles {
	quarantine.Hold()
	u, err := bounded.On(ctx, p.guard, "processes", pods, func(int) *openFiles {
		defer quarantine.Drop()
		return p.readOpenFiles(ctx, pods, quarantine, w)
	})
	if errors.Is(err, bounded.ErrStuck) {
		quarantine.Drop() // the reading has not begun
	}
	if err != nil {
		return newOpenFiles(fmt.Errorf("cannot read the processes: %w", err))
	}
	return u
}

// readOpenFiles reads the links of every process. Reading a link asks the process's own
// tables, never the file system behind it, so it does not hang on a dead one.
func (p *Probe) readOpenFiles(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *openFiles {
	proc, err := procfs.Open(p.cfg.ProcDir)
	if err != nil {
		return newOpenFiles(err)
	}
	defer beneath.Close(proc)
	var buf [4096]byte
	self := "self"
	if n, err := unix.Readlinkat(proc, "self", buf[:]); err == nil {
		self = string(buf[:n])
	}
	s := p.newScan(ctx, proc, pods, quarantine, w)
	s.ours = ownNumbers(self)
	u := s.openFiles
	met := false
	n, err := procfs.Each(ctx, p.cfg.ProcDir, proc, func(pid string) (ended bool) {
		if pid == self {
			met = true // the handles of this look
			return false
		}
		read, ended, err := s.process(pid)
		switch {
		case err != nil && u.err == nil:
			u.err = fmt.Errorf("cannot read the open files of PID %s: %w", pid, err)
		case read:
			u.read++
			s.joins(pid)
		}
		return ended
	})
	u.alone = self == "1" && n == 1 && met
	if err != nil {
		u.err = err
		return u
	}
	for _, err := range [...]error{s.loops(&p.cfg, p.part()), s.swaps(p.cfg.Swaps), s.sockets()} {
		if err != nil && u.err == nil {
			u.err = err
		}
	}
	return u
}

// useScan is one pass over all processes.
type useScan struct {
	*openFiles
	wanted  parsers.PodSet
	proc    int
	procDir string
	ours    bool                   // the proc directory is that of this process's PID namespace
	rings   int64                  // what may still be read of rings
	hints   map[parsers.PodUID]int // links that named the pod and led elsewhere
	nets    map[string][]string    // the processes of each network namespace
	info    int                    // the open fdinfo directory of the process that is read, -1 while none is
	names   []byte
	link    [4096]byte
}

func (p *Probe) newScan(ctx context.Context, proc int, pods, quarantine *bounded.Handle, w parsers.PodSet) *useScan {
	s := &useScan{
		openFiles: newOpenFiles(nil), wanted: w, proc: proc, procDir: p.cfg.ProcDir,
		names: make([]byte, 32<<10), hints: map[parsers.PodUID]int{}, rings: biggestRing, nets: map[string][]string{},
		info: -1,
	}
	s.devs = devicesOf(p.cfg.ProcDir, pods, quarantine)
	s.detached = detachedFiles{mounts: map[uint64][]string{}, namespaces: map[string]string{}}
	s.places = &places{
		open: p.open, pods: pods, quarantine: quarantine, procDir: p.cfg.ProcDir, ctx: ctx, guard: p.guard,
	}
	return s
}

// process says whether the process could be read, and whether it has ended; one that has is
// neither read nor refused. A thread is read where it does not share the files of the first one
// that lives.
func (s *useScan) process(pid string) (read, ended bool, err error) {
	read, ended, err = s.files(pid)
	if err != nil || !read && !ended {
		return read, ended, err
	}
	others, err := procfs.Threads(s.proc, pid)
	first := pid
	if ended {
		first = ""
	}
	for _, tid := range others {
		if err != nil {
			break
		}
		if first != "" && s.sameFiles(first, tid) {
			continue
		}
		var got, over bool
		if got, over, err = s.files(tid); got && !over && first == "" {
			first, read = tid, true
		}
	}
	return read, ended, err
}

// files reads what one process or thread has open. One that ends loses its program first,
// then its open files, then its directories (do_exit of kernel/exit.c): so the program comes
// last, and shows that the files were still there. A kernel thread has none, and counts as
// one that has ended: then another listing follows, and nothing else.
func (s *useScan) files(pid string) (read, ended bool, _ error) {
	for _, name := range [...]string{"cwd", "root"} {
		if err := s.look(s.proc, pid, pid+"/"+name, name); err != nil {
			return s.class(pid, err)
		}
	}
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Openat(s.proc, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return s.class(pid, err)
	}
	defer beneath.Close(fd)
	var links []string
	err = beneath.EachName(fd, s.names, func(d beneath.Entry) bool {
		links = append(links, d.Name)
		return true
	})
	if err != nil {
		return s.class(pid, err)
	}
	s.detached.directories = append(s.detached.directories, pid)
	defer func() { beneath.Close(s.info); s.info = -1 }()
	for _, name := range links {
		if err := s.look(fd, pid, name, "fd "+name); err != nil && !procfs.Vanished(err) {
			return s.class(pid, err)
		}
	}
	if err := s.look(s.proc, pid, pid+"/exe", "exe"); err != nil && !procfs.Vanished(err) {
		return s.class(pid, err)
	} else if err != nil {
		ended = true
	}
	return true, ended, nil
}

// look reads one link of a process or thread, what it is for people being what. Every
// component is compared, wherever the path begins: a process in another mount namespace shows
// it from its own root.
func (s *useScan) look(dir int, pid, name, what string) error {
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(dir, name, s.link[:]) })
	// The kernel gives no path of more than 4,096 bytes, and "/" for a file that was opened by a
	// handle (open_by_handle_at(2)) while nobody knew its name.
	if errors.Is(err, unix.ENAMETOOLONG) || err == nil && dir != s.proc && string(s.link[:n]) == "/" {
		s.nameless(dir, pid, name, what)
		return nil
	}
	if err != nil {
		return err
	}
	if dir != s.proc && string(s.link[:n]) == ringLink {
		return s.ring(pid, name)
	}
	if dir != s.proc {
		s.opens(pid, name, s.link[:n])
	}
	var found [4]parsers.PodUID
	uids := s.wanted.InPath(found[:0], s.link[:n])
	if len(uids) == 0 {
		return nil
	}
	for _, uid := range uids {
		if s.again[uid] == "" && parsers.BareUID(s.link[:n], uid) {
			s.again[uid] = "PID " + procfs.Who(s.procDir, pid) + " has " + clean.Name(string(s.link[:n])) + " as " + what
		}
	}
	if dir != s.proc {
		name = pid + "/fd/" + name
	}
	s.hint(link{pid, name}, string(s.link[:n]), what)
	return nil
}

// nameless asks what a link leads to of which no path tells. What does not answer is not on the
// pods' file system, which does.
func (s *useScan) nameless(dir int, pid, name, what string) {
	if dir != s.proc {
		name = pid + "/fd/" + name
	}
	id, err := s.places.ask(name, func() answered { return statLink(s.procDir + "/" + name) })
	if _, ok := s.devs[id.dev]; ok && err == nil {
		s.stray(id, stray{process: pid, path: "a file without a path", what: what, sure: true, nameless: true})
	}
}

// mostHints bounds the links that name one pod and lead elsewhere. Who makes more of them
// keeps that pod, and holds up no look.
const mostHints = 1000

// hint follows up a path that names pods. The path may change meanwhile, as that of every file
// of a pod does when it is parked: then the new one is followed.
func (s *useScan) hint(l link, path, what string) {
	words := func() string {
		return "PID " + procfs.Who(s.procDir, l.process) + " has " + clean.Name(path) + " as " + what
	}
	for range 3 {
		var doubts []parsers.PodUID
		for _, at := range spots(s.wanted, path) {
			if s.pods[at.uid] != "" || s.doubts[at.uid] != "" {
				continue
			}
			truth := policy.Unknown
			if s.hints[at.uid]++; s.hints[at.uid] <= mostHints {
				truth = s.places.holds(at, l)
			}
			switch truth {
			case policy.Yes:
				s.pods[at.uid] = words()
			case policy.Unknown:
				doubts = append(doubts, at.uid)
			case policy.No:
			}
		}
		now, err := s.pathNow(l, path)
		if err != nil {
			return // closed
		}
		if now == path {
			for _, uid := range doubts {
				s.doubts[uid] = words() + ", and nobody can tell whether that is this pod's"
			}
			return
		}
		path = now
	}
	for _, at := range spots(s.wanted, path) {
		s.doubts[at.uid] = words() + ", and the path changes all the time"
	}
}

func (s *useScan) pathNow(l link, path string) (string, error) {
	if l.name == "" {
		return path, nil
	}
	var buf [len(s.link)]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(s.proc, l.name, buf[:]) })
	return string(buf[:max(n, 0)]), err
}

// class: one that has ended is fine, one that refuses is counted, the rest is an error.
func (s *useScan) class(pid string, err error) (read, over bool, _ error) {
	switch {
	case procfs.Vanished(err), procfs.Ended(s.proc, pid, err):
		return false, true, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		s.refused++
		return false, false, nil
	}
	return false, false, err
}
