package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// kubelets are the running kubelets whose root directory is ours, and those with another one, for messages.
type kubelets struct {
	own    []judge.Kubelet
	others []string
	rootID judge.FileID
	// nodeName is the --hostname-override of our kubelet, "" if it has none.
	nodeName string
}

// pid returns the PID of our kubelet, 0 if there is not exactly one.
func (k *kubelets) pid() int {
	if len(k.own) != 1 {
		return 0
	}
	return k.own[0].PID
}

// ours returns the one kubelet, and whether there is exactly one.
func (k *kubelets) ours(d doubt) (judge.Kubelet, judge.Fact) {
	f := judge.Fact{Truth: judge.No, Source: "/proc/PID/cmdline and --root-dir"}
	switch {
	case d.err != nil:
		return judge.Kubelet{}, d.fact(judge.Fact{Source: f.Source})
	case len(k.own) == 1:
		f.Truth, f.Detail = judge.Yes, fmt.Sprintf("PID %d", k.own[0].PID)
		return k.own[0], f
	case len(k.own) > 1:
		pids := make([]string, len(k.own))
		for i := range k.own {
			pids[i] = strconv.Itoa(k.own[i].PID)
		}
		f.Detail = "more than one kubelet uses this root directory: PIDs " + strings.Join(pids, ", ")
	default:
		f.Detail = "no running kubelet uses this root directory"
		if len(k.others) > 0 {
			f.Detail += "; not counted: " + strings.Join(k.others, ", ")
		}
	}
	return judge.Kubelet{}, f
}

// candidate is a process that is a kubelet by its command.
type candidate struct {
	process
	command
	cgroup string
	start  time.Duration
}

// findKubelets finds the kubelets among the processes. One that cannot be read is an error, since it may be ours.
func (s *Scanner) findKubelets(procs sensed[*processes]) (kubelets, error) {
	var k kubelets
	if procs.doubt.err != nil {
		return k, procs.doubt.err
	}
	var st unix.Stat_t
	if err := unix.Stat(s.cfg.RootDir, &st); err != nil {
		return k, fdpath.PathError("stat", s.cfg.RootDir, err)
	}
	k.rootID = judge.FileID{Dev: st.Dev, Ino: st.Ino}
	all, err := s.candidates(procs.found, &k)
	if err != nil {
		return k, err
	}
	for _, c := range all {
		// A child with the same command line is a fork that has not called execve yet: a kubelet starts mount this way.
		if slices.ContainsFunc(all, func(p candidate) bool { return p.pid == c.parent && slices.Equal(p.args, c.args) }) {
			continue
		}
		root, err := s.rootOf(c)
		switch {
		case vanished(err) || fdpath.Is(err, unix.ENOTDIR):
			k.others = append(k.others, c.who()+" has no root directory")
		case err != nil:
			return k, fmt.Errorf("cannot open the root directory of %s: %w", c.who(), err)
		case root != k.rootID:
			k.others = append(k.others, c.who()+" has another root directory")
		default:
			k.own = append(k.own, s.describe(c))
			k.nodeName = c.flag("hostname-override")
		}
	}
	return k, nil
}

// candidates returns the processes that run as root, in no pod's cgroup, and are kubelets by their command.
func (s *Scanner) candidates(procs *processes, k *kubelets) ([]candidate, error) {
	var all []candidate
	for _, p := range procs.all {
		// The command line lies in the memory of the process, and reading it hangs if that is locked. So it is read only if
		// the name may be a kubelet's, and neither a pod nor another user runs the process.
		if p.pid == os.Getpid() || !strings.Contains(p.name, "kube") && !strings.Contains(p.name, "k3s") || !p.root {
			continue
		}
		c, err := s.candidate(p, k)
		switch {
		case vanished(err):
		case err != nil:
			return nil, err
		case c != nil:
			all = append(all, *c)
		}
	}
	return all, nil
}

func (s *Scanner) candidate(p process, k *kubelets) (*candidate, error) {
	cgroup, err := s.readProc(p.pid, "cgroup", 64<<10)
	if err != nil {
		return nil, err
	}
	if pod := parseOwner(string(cgroup), s.ownPod()).pod; pod != "" {
		if p.name == "kubelet" {
			k.others = append(k.others, p.who()+" is in the cgroup of pod "+string(pod))
		}
		return nil, nil
	}
	before, err := s.startOf(p.pid)
	if err != nil {
		return nil, err
	}
	cmdline, err := s.readProc(p.pid, "cmdline", 2<<20) // a quarter of the usual stack limit is the most that Linux allows
	if err != nil {
		return nil, err
	}
	cmd, ok := parseCommand(p.name, splitCmdline(cmdline))
	if !ok || cmd.script {
		return nil, nil
	}
	// Another start time is another process with the same PID.
	if after, err := s.startOf(p.pid); err != nil || after != before {
		return nil, err
	}
	return &candidate{process: p, command: cmd, cgroup: string(cgroup), start: before}, nil
}

// startOf returns when a process started, on CLOCK_BOOTTIME: field 22 of /proc/PID/stat, proc_pid_stat(5). Field 2 is the name
// in parentheses, which may have spaces and parentheses, so the fields are counted from the last parenthesis.
func (s *Scanner) startOf(pid int) (time.Duration, error) {
	text, err := s.readProc(pid, "stat", 64<<10)
	if err != nil {
		return 0, err
	}
	const state, start = 0, 22 - 3
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) <= start {
		return 0, fmt.Errorf("cannot read %s: it has %d fields after the name", s.procPath(pid, "stat"), len(f))
	}
	if f[state][0] == 'Z' || f[state][0] == 'X' {
		return 0, unix.ESRCH
	}
	ticks, err := strconv.ParseInt(string(f[start]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", s.procPath(pid, "stat"), err)
	}
	tick, err := clockTick()
	return time.Duration(ticks) * tick, err
}

// clockTick returns the unit of starttime: AT_CLKTCK of getauxval(3), 17 in linux/auxvec.h.
func clockTick() (time.Duration, error) {
	const atClockTick = 17
	vector, err := unix.Auxv()
	for _, pair := range vector {
		if pair[0] == atClockTick && pair[1] > 0 {
			return time.Second / time.Duration(pair[1]), nil
		}
	}
	return 0, errors.Join(errors.New("cannot read the clock's unit"), err)
}

// rootOf returns the identity of the kubelet's root directory as the kubelet sees it: in its own root, where a link in the
// path leads to what it leads to there.
func (s *Scanner) rootOf(c candidate) (judge.FileID, error) {
	dir := c.flag("root-dir")
	if dir == "" {
		dir = s.cfg.RootDir
	}
	if !filepath.IsAbs(dir) {
		cwd, err := os.Readlink(s.procPath(c.pid, "cwd"))
		if err != nil {
			return judge.FileID{}, err
		}
		dir = filepath.Join(cwd, dir)
	}
	root, err := s.open.Open(s.procPath(c.pid, "root"))
	if err != nil {
		return judge.FileID{}, err
	}
	defer root.Close()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := fdpath.Retry(func() (int, error) { return unix.Openat2(root.FD(), dir, &how) })
	if fdpath.Is(err, unix.ENOSYS, unix.EPERM) { // before Linux 5.6, or filtered
		fd, err = fdpath.Retry(func() (int, error) {
			return unix.Openat(root.FD(), strings.TrimLeft(dir, "/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
	}
	if err != nil {
		return judge.FileID{}, fdpath.PathError("open", dir, err)
	}
	defer fdpath.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return judge.FileID{}, fdpath.PathError("stat", dir, err)
	}
	return judge.FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

// describe returns what the log's lines are compared with.
func (s *Scanner) describe(c candidate) judge.Kubelet {
	k := judge.Kubelet{PID: c.pid, Inner: c.inner, Start: c.start, Unit: parseOwner(c.cgroup, "").unit, Verbosity: c.verbosity()}
	switch c.flag("logging-format") {
	case "json":
		k.JSON = judge.Yes
	case "text":
		k.JSON = judge.No
	}
	for _, fd := range [...]string{"fd/2", "fd/1"} {
		if f, ok := s.logFile(c.pid, fd); ok && !slices.ContainsFunc(k.Logs, func(known judge.LogFile) bool { return known.ID == f.ID }) {
			k.Logs = append(k.Logs, f)
		}
	}
	if id, ok := regularFile(s.cfg.RKE2Log); ok && len(k.Logs) == 0 {
		k.Logs = append(k.Logs, judge.LogFile{Path: s.cfg.RKE2Log, ID: id})
	}
	return k
}

// logFile returns the regular file that an fd of the kubelet leads to (StandardError=append:FILE, nohup, runit), by a path at
// which we find it.
func (s *Scanner) logFile(pid int, fd string) (judge.LogFile, bool) {
	link := s.procPath(pid, fd)
	id, ok := regularFile(link)
	path, err := os.Readlink(link)
	if !ok || err != nil || !filepath.IsAbs(path) {
		return judge.LogFile{}, false
	}
	for _, at := range [...]string{path, s.procPath(pid, "root") + path} {
		if named, ok := regularFile(at); ok && named == id {
			return judge.LogFile{Path: at, ID: id, Own: true}, true
		}
	}
	return judge.LogFile{}, false
}

// regularFile returns the identity of a regular file.
func regularFile(path string) (judge.FileID, bool) {
	var st unix.Stat_t
	err := fdpath.Uninterrupted(func() error { return unix.Stat(path, &st) })
	return judge.FileID{Dev: st.Dev, Ino: st.Ino}, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
