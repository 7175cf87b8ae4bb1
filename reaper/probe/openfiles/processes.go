package openfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// readAll reads the links and the mappings of every process. Reading a link asks the process's own
// tables, never the file system behind it, so it does not hang on a dead one.
func (r *Reader) readAll(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *Answer {
	proc, err := procfs.Open(r.ProcDir)
	if err != nil {
		return r.newAnswer(err)
	}
	defer beneath.Close(proc)
	var buf [4096]byte
	self := "self"
	if n, err := unix.Readlinkat(proc, "self", buf[:]); err == nil {
		self = string(buf[:n])
	}
	s := r.newScan(ctx, proc, pods, quarantine, w)
	defer s.run.Close()
	s.ours = ownNumbers(self)
	met := false
	n, err := s.Each(ctx, func(p *procfs.Process) (ended bool, _ error) {
		if p.PID == self {
			met = true // the handles of this look
			return false, nil
		}
		return s.use(p)
	}, func(p *procfs.Process, why error) {
		s.read++
		s.over(p, why)
	})
	s.alone = self == "1" && n == 1 && met
	if err != nil {
		s.Err = err
		return s.Answer
	}
	if err := s.loops(r.part()); err != nil && s.Err == nil {
		s.Err = err
	}
	return s.Answer
}

// use reads what one process has open and mapped. The error is ErrShare, or none.
func (s *scan) use(p *procfs.Process) (ended bool, _ error) {
	what := "the open files of PID "
	read, ended, err := s.process(p)
	if err == nil && read {
		var over bool
		what = "the mappings of PID "
		over, err = s.mapsOf(p)
		ended = ended || over
	}
	switch {
	case errors.Is(err, procfs.ErrShare):
		return ended, err
	case err != nil && s.Err == nil:
		s.Err = fmt.Errorf("cannot read %s%s: %w", what, p.PID, err)
	case err == nil && read:
		s.read++
	}
	return ended, nil
}

// scan is one pass over all processes.
type scan struct {
	*Reader
	*Answer
	*procfs.Shares
	places places
	wanted parsers.PodSet
	proc   int
	ours   bool // the proc directory is that of this process's PID namespace
	names  []byte
	maps   *mapReader
	run    bounded.Runner[mappings]
	known  known // of the process that is read
	shown  []procfs.Region
	link   [4096]byte
}

func (r *Reader) newScan(ctx context.Context, proc int, pods, quarantine *bounded.Handle, w parsers.PodSet) *scan {
	s := &scan{
		Reader: r, Answer: r.newAnswer(nil), wanted: w, proc: proc, names: make([]byte, 32<<10),
		Shares: procfs.NewShares(r.ProcDir, proc, r.CgroupRoot, r.Guard.Limit()),
		run:    bounded.Runner[mappings]{Guard: cmp.Or(r.Apart, r.Guard)},
	}
	s.places = places{Reader: r, pods: pods, quarantine: quarantine, ctx: ctx}
	s.devs = devicesOf(pods, quarantine)
	s.maps = s.newMapReader()
	return s
}

// process reports whether the process could be read, and whether it has ended; one that has is
// neither read nor refused. A thread is read where it does not share the files of the first one
// that lives.
func (s *scan) process(p *procfs.Process) (read, ended bool, err error) {
	read, ended, err = s.files(p, p.PID)
	if err != nil || !read && !ended {
		return read, ended, err
	}
	others, err := procfs.Threads(s.proc, p.PID)
	first := p.PID
	if ended {
		first = ""
	}
	for _, tid := range others {
		if err != nil {
			break
		}
		if first != "" && s.sameFiles(first, tid) {
			err = p.Over()
			continue
		}
		var got, over bool
		if got, over, err = s.files(p, tid); got && !over && first == "" {
			first, read = tid, true
		}
	}
	return read, ended, err
}

// files reads what one process or thread has open. One that ends loses its program first,
// then its open files, then its directories (do_exit of kernel/exit.c): so the program comes
// last, and shows that the files were still there. A kernel thread has none, and counts as
// one that has ended: then another listing follows, and nothing else.
func (s *scan) files(p *procfs.Process, pid string) (read, ended bool, _ error) {
	for _, name := range [...]string{"cwd", "root"} {
		if err := s.readLink(p, s.proc, pid, pid+"/"+name, name); err != nil {
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
	var failed error
	err = beneath.EachName(fd, s.names, func(d beneath.Entry) bool {
		if d.Name[0] != '.' {
			failed = s.readLink(p, fd, pid, d.Name, "fd "+d.Name)
		}
		if procfs.Vanished(failed) {
			failed = nil // it was closed
		}
		return failed == nil
	})
	if err = cmp.Or(failed, err); err != nil {
		return s.class(pid, err)
	}
	if err := s.readLink(p, s.proc, pid, pid+"/exe", "exe"); err != nil && !procfs.Vanished(err) {
		return s.class(pid, err)
	} else if err != nil {
		ended = true
	}
	return true, ended, nil
}

// readLink reads one link of a process or thread; what is the link in words. Every
// component of the path is compared, wherever the path begins: that of a process in another mount
// namespace begins at its own root.
func (s *scan) readLink(p *procfs.Process, dir int, pid, name, what string) error {
	if err := p.Over(); err != nil {
		return err
	}
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(dir, name, s.link[:]) })
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil // the kernel gives no path of more than 4,096 bytes
	}
	if err != nil {
		return err
	}
	if dir != s.proc && procfs.IsMountNamespace(s.link[:n]) {
		s.namespaces[string(s.link[:n])] = pid + "/fd/" + name
	}
	var found [4]parsers.PodUID
	uids := s.wanted.InPath(found[:0], s.link[:n])
	if len(uids) == 0 {
		return nil
	}
	for _, uid := range uids {
		if s.again[uid] == "" && parsers.BareUID(s.link[:n], uid) {
			s.again[uid] = "PID " + procfs.Who(s.ProcDir, pid) + " has " + clean.Name(string(s.link[:n])) + " as " + what
		}
	}
	if dir != s.proc {
		name = pid + "/fd/" + name
	}
	s.hint(p, link{process: pid, name: name}, string(s.link[:n]), what)
	return nil
}

// hint follows up a path that names pods. The path may change meanwhile, as that of every file
// of a pod does when it is parked: then the new one is followed.
func (s *scan) hint(p *procfs.Process, l link, path, what string) {
	words := func() string {
		return "PID " + procfs.Who(s.ProcDir, l.process) + " has " + clean.Name(path) + " as " + what
	}
	for range 3 {
		var doubts []parsers.PodUID
		for _, at := range spots(s.wanted, path) {
			if s.pods[at.uid] != "" || s.doubts[at.uid] != "" {
				continue
			}
			switch s.places.below(at, l) {
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
				s.doubt(p, uid, words()+", and it is not known whether that is this pod's")
			}
			return
		}
		path = now
	}
	for _, at := range spots(s.wanted, path) {
		s.doubt(p, at.uid, words()+", and the path changes all the time")
	}
}

func (s *scan) pathNow(l link, path string) (string, error) {
	if l.name == "" {
		return path, nil
	}
	var buf [len(s.link)]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(s.proc, l.name, buf[:]) })
	return string(buf[:max(n, 0)]), err
}

// class returns what an error means: a process that has ended is passed over, one that may not be read
// is counted, and the rest is an error.
func (s *scan) class(pid string, err error) (read, over bool, _ error) {
	switch {
	case procfs.Vanished(err), procfs.Ended(s.proc, pid, err):
		return false, true, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if pid == "1" {
			s.init = procfs.Who(s.ProcDir, pid)
		} else if s.refused++; s.refused == 1 {
			s.refusing = procfs.Who(s.ProcDir, pid)
		}
		return false, false, nil
	}
	return false, false, err
}

// What kcmp(2) compares: the table of open files, and root and working directory.
const (
	kcmpFiles = 2
	kcmpFS    = 3
)

// sameFiles reports whether two threads of a process share open files, root and working
// directory. A thread may leave each of them (unshare(2)), and in /proc only a listing shows
// that. kcmp takes what a listing takes, CAP_SYS_PTRACE; where the kernel or a filter has
// none, each thread is read.
func (s *scan) sameFiles(a, b string) bool {
	if !s.ours {
		return false
	}
	first, err := strconv.Atoi(path.Base(a))
	if err != nil {
		return false
	}
	second, err := strconv.Atoi(path.Base(b))
	return err == nil && kcmpEqual(first, second, kcmpFiles) && kcmpEqual(first, second, kcmpFS)
}

func kcmpEqual(a, b, what int) bool {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), uintptr(what), 0, 0, 0) //nolint:forbidigo // it only compares
	return errno == 0 && order == 0
}

// ownNumbers reports whether the numbers in the proc directory are those of this process's PID
// namespace, by the name that it has for this process.
func ownNumbers(self string) bool { return self == strconv.Itoa(os.Getpid()) }

// What cannot be read of a process is a doubt about its own pod. It is a doubt about the node, or about
// the pod that a path names, only where it is near: see procfs. Another process that holds a file of a dead
// pod keeps that file open: a removal takes the name only, as the kubelet's own does.

// known is what is known of a process, once it was asked for.
type known struct {
	procfs.Owner
	pid string
	// near reports that what is unknown of it is a doubt about more than its own pod.
	near bool
}

func (s *scan) whose(p *procfs.Process) known {
	if s.known.pid != p.PID {
		o, err := s.Whose(p.PID)
		s.known = known{o, p.PID, err == nil && s.Near(p.PID, s.regions(), o)}
	}
	return s.known
}

// doubt notes a doubt about a pod that a file of the process names.
func (s *scan) doubt(p *procfs.Process, uid parsers.PodUID, words string) {
	if !s.whose(p).near {
		uid = s.whose(p).Pod
	}
	if s.wanted[uid] && s.doubts[uid] == "" {
		s.doubts[uid] = words
	}
}

// over notes that not all of a process was read, where that belongs.
func (s *scan) over(p *procfs.Process, why error) {
	of := s.whose(p)
	who := "PID " + procfs.Who(s.ProcDir, p.PID)
	switch {
	case of.Pod != "":
		who += " of pod " + string(of.Pod)
		if s.wanted[of.Pod] {
			s.doubts[of.Pod] = who + ": " + why.Error()
		}
	case of.UID != "":
		who += " of user ID " + of.UID
	}
	if s.partly++; s.partly == 1 {
		s.partOf = who
	}
	if s.Err == nil && (of.near || !errors.Is(why, procfs.ErrShare)) {
		s.Err = fmt.Errorf("cannot read the open and mapped files of %s: %w", who, why)
	}
}

// regions are the directories of the pods, none where one of them is not known.
func (s *scan) regions() []procfs.Region {
	if s.shown != nil {
		return s.shown
	}
	for _, h := range []*bounded.Handle{s.places.pods, s.places.quarantine} {
		if h == nil {
			continue
		}
		r, err := procfs.RegionOf(s.ProcDir, h.FD)
		if err != nil {
			return nil
		}
		s.shown = append(s.shown, r)
	}
	return s.shown
}
