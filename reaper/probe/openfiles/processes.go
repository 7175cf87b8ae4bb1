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

// readAll reads the links and the mappings of every process. Reading a link never asks the file system
// behind it, so it does not hang on a dead one.
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
			met = true // its open files are the handles of this look
			return false, nil
		}
		return s.use(p)
	}, func(p *procfs.Process, why error) {
		s.read++
		s.partlyRead(p, why)
	})
	s.alone = self == "1" && n == 1 && met
	if err != nil {
		s.Err = err
		return s.Answer
	}
	if err := s.loops(r.partOfMachine()); err != nil && s.Err == nil {
		s.Err = err
	}
	return s.Answer
}

// use reads the open and mapped files of one process. Its error is nil or ErrShare.
func (s *scan) use(p *procfs.Process) (ended bool, _ error) {
	what := "the open files of PID "
	read, ended, err := s.process(p)
	if err == nil && read {
		var gone bool
		what = "the mappings of PID "
		gone, err = s.mapsOf(p)
		ended = ended || gone
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
	owner  owner // of the process that is being read
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

// process reads the open files of a process, and of each thread that does not share those of its first
// living thread. It reports whether they could be read, and whether the process has ended.
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
		var got, gone bool
		if got, gone, err = s.files(p, tid); got && !gone && first == "" {
			first, read = tid, true
		}
	}
	return read, ended, err
}

// files reads the open files of one process or thread. One that ends loses its program first,
// then its open files, then its directories (do_exit of kernel/exit.c). So the program is read
// last, and proves that the files were still there. A kernel thread has no program and counts
// as ended, which only causes another listing.
func (s *scan) files(p *procfs.Process, pid string) (read, ended bool, _ error) {
	for _, name := range [...]string{"cwd", "root"} {
		if err := s.readLink(p, s.proc, pid, pid+"/"+name, name); err != nil {
			return s.classify(pid, err)
		}
	}
	fd, err := beneath.OpenTrusted(s.proc, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return s.classify(pid, err)
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
		return s.classify(pid, err)
	}
	err = s.readLink(p, s.proc, pid, pid+"/exe", "exe")
	if err != nil && !procfs.Vanished(err) {
		return s.classify(pid, err)
	}
	return true, err != nil, nil
}

// readLink reads one link of a process or thread; what describes the link. It compares every component of
// the path, since a path of another mount namespace begins at another root.
func (s *scan) readLink(p *procfs.Process, dir int, pid, name, what string) error {
	if err := p.Over(); err != nil {
		return err
	}
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(dir, name, s.link[:]) })
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil // longer than the kernel's limit of 4,096 bytes
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

// hint checks whether a path that names pods leads to a file of theirs. If the path changes meanwhile, as
// when a pod is parked, it checks the new one.
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
			switch s.places.leads(at, l) {
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
		s.doubt(p, at.uid, words()+", and its path keeps changing")
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

// classify reports whether an error means that the process has ended. It counts a process that may not be read,
// and returns any other error.
func (s *scan) classify(pid string, err error) (read, ended bool, _ error) {
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

// What kcmp(2) compares.
const (
	kcmpFiles = 2 // the table of open files
	kcmpFS    = 3 // root and working directory
)

// sameFiles reports whether two threads of a process are known to share open files, root and
// working directory, which unshare(2) can separate. Like a listing of the files, kcmp(2) needs
// CAP_SYS_PTRACE. The kernel or a filter may not have it.
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

// ownNumbers reports whether the PIDs of the proc directory, in which this process is self, are those of
// this process's PID namespace.
func ownNumbers(self string) bool { return self == strconv.Itoa(os.Getpid()) }

// owner is the owner of the process pid. What goes unread of a process is a doubt about its own pod. Only if it
// is near (procfs.Shares.Near) is it a doubt about the node, or about the pod that a path names. Any other process that
// holds a file of a dead pod keeps that file: a removal removes only the name, as the kubelet's own does.
type owner struct {
	procfs.Owner
	pid  string
	near bool
}

func (s *scan) whose(p *procfs.Process) owner {
	if s.owner.pid != p.PID {
		o, err := s.Whose(p.PID)
		s.owner = owner{o, p.PID, err == nil && s.Near(p.PID, s.regions(), o)}
	}
	return s.owner
}

// doubt records a doubt about a pod that a file of the process names, or about the process's own pod.
func (s *scan) doubt(p *procfs.Process, uid parsers.PodUID, words string) {
	if !s.whose(p).near {
		uid = s.whose(p).Pod
	}
	if s.wanted[uid] && s.doubts[uid] == "" {
		s.doubts[uid] = words
	}
}

// partlyRead records that a process was not read completely.
func (s *scan) partlyRead(p *procfs.Process, why error) {
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
		s.partOf = who + ": " + why.Error()
	}
	if s.Err == nil && (of.near || !errors.Is(why, procfs.ErrShare)) {
		s.Err = fmt.Errorf("cannot read the open and mapped files of %s: %w", who, why)
	}
}

// regions returns the directories of the pods, none if one of them is unknown.
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
