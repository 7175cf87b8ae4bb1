package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// scanner looks for kubelets among the processes of a /proc.
type scanner struct {
	procDir string
	// thorough also reads the command line of processes whose name says nothing, and
	// counts scripts: for refusals, where one process too many is the safe error.
	thorough bool
}

// errGone is the end of a process between two reads of it.
var errGone = errors.New("the process has ended")

// kubelets returns all that run. A process that cannot be read is an error: it might be
// the second kubelet. Threads are not listed in /proc; zombies and kernel threads have no
// command line and so are none.
//
// Not every process that calls itself kubelet is this node's:
//   - one of another user than root or ours is anybody's: its PID would otherwise turn
//     that user's forged log lines into evidence;
//   - one in a PID namespace below this /proc's is the kubelet of a node in a container
//     (kind), whose root directory is another one of the same name; a kubelet that runs in
//     a container of this node shares the host's PID namespace, since it must see all
//     processes;
//   - one in a pod's cgroup is that pod's: its name would otherwise be enough to make the node's own
//     kubelet one of two;
//   - a child of a kubelet with the same command line is a fork that has not yet called
//     execve: the kubelet starts mount and umount in this way all the time.
func (s scanner) kubelets() ([]*kubelet, error) {
	// Every PID namespace has a PID 1. A /proc that does not show it hides processes
	// (hidepid), or is none.
	if _, err := os.Stat(filepath.Join(s.procDir, "1")); err != nil {
		return nil, fmt.Errorf("%s does not show all processes: %w", s.procDir, err)
	}
	entries, err := os.ReadDir(s.procDir)
	if err != nil {
		return nil, err
	}
	tick, err := clockTick()
	if err != nil {
		return nil, err
	}
	var all []*kubelet
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		k, err := s.kubelet(pid, tick)
		switch {
		case errors.Is(err, errGone):
		case err != nil:
			return nil, err
		case k != nil:
			all = append(all, k)
		}
	}
	forked := func(k *kubelet) bool {
		return slices.ContainsFunc(all, func(parent *kubelet) bool {
			return parent.id.PID == k.parent && slices.Equal(parent.args, k.args)
		})
	}
	return slices.DeleteFunc(slices.Clone(all), forked), nil
}

// kubelet reads one process; nil where it is no kubelet.
func (s scanner) kubelet(pid int, tick time.Duration) (*kubelet, error) {
	comm, err := s.read(pid, "comm", 4<<10)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(string(comm), "\n")
	// comm is one short read; the command line lies in the process's own memory, is slower
	// to get, and waits for ever where the process hangs with its memory locked. So it is
	// read of those only whose name may be a kubelet's (also k3s-server, .kubelet-wrapped).
	if !s.thorough && !strings.Contains(name, "kube") && !strings.Contains(name, "k3s") {
		return nil, nil //nolint:nilnil // no kubelet is an answer, not an error
	}
	cmdline, err := s.read(pid, "cmdline", maxCmdline)
	if err != nil {
		return nil, err
	}
	k, ok := parseCommand(name, splitCmdline(cmdline))
	if !ok || k.script && !s.thorough {
		return nil, nil //nolint:nilnil // no kubelet is an answer, not an error
	}
	before, err := s.stat(pid)
	if err != nil {
		return nil, err
	}
	if ours, err := s.isOurs(pid); err != nil || !ours || (!s.thorough && s.inPod(pid)) {
		return nil, err
	}
	k.hidden = isTitle(cmdline)
	if k.files, err = s.filesOf(pid, before.start); err != nil {
		return nil, err
	}
	if k.flags, k.rootErr = k.effective(); k.rootErr == nil {
		k.rootDir, k.rootErr = k.findRootDir(s.path(pid, "cwd"))
	}
	// The same number and another start is another process.
	after, err := s.stat(pid)
	if err != nil {
		return nil, err
	}
	if after != before {
		return nil, errGone
	}
	k.id = policy.KubeletID{PID: pid, Start: time.Duration(after.start) * tick}
	k.parent = after.parent
	return k, nil
}

func (s scanner) path(pid int, file string) string {
	return filepath.Join(s.procDir, strconv.Itoa(pid), file)
}

// maxCmdline bounds a command line. Linux allows a quarter of the stack limit, 2 MiB.
const maxCmdline = 2 << 20

// read reads a process's file, bounded.
func (s scanner) read(pid int, file string, limit int64) ([]byte, error) {
	b, err := readRegular(s.path(pid, file), limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, errGone
	}
	return b, err
}

// readRegular reads a file that must be a regular one of at most limit bytes. O_NONBLOCK
// keeps the open of a FIFO from waiting for a writer.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return readOpened(f, limit)
}

func readOpened(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %s: it is %s", f.Name(), kindOf(info.Mode()))
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("cannot read %s: it is longer than %d bytes", f.Name(), limit)
	}
	return b, err
}

type procStat struct {
	parent int
	start  int64 // ticks since boot
}

// stat reads /proc/PID/stat, proc_pid_stat(5). Field 2 is the name in parentheses, which
// may itself hold spaces and parentheses, so the fields are counted from the last one:
//
//	1234 (kube) let) S 1 1234 ...  ->  S is field 3, the parent 4, starttime 22
func (s scanner) stat(pid int) (procStat, error) {
	b, err := s.read(pid, "stat", 64<<10)
	if err != nil {
		return procStat{}, err
	}
	const state, parent, start = 0, 1, 22 - 3
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= start {
		return procStat{}, fmt.Errorf("cannot read %s: %d fields after the name", s.path(pid, "stat"), len(fields))
	}
	if c := fields[state][0]; c == 'Z' || c == 'X' {
		return procStat{}, errGone
	}
	var st procStat
	if st.parent, err = strconv.Atoi(string(fields[parent])); err == nil {
		st.start, err = strconv.ParseInt(string(fields[start]), 10, 64)
	}
	if err == nil && st.start < 0 {
		err = errors.New("negative start")
	}
	if err != nil {
		return procStat{}, fmt.Errorf("cannot read %s: %w", s.path(pid, "stat"), err)
	}
	return st, nil
}

// isOurs says whether the process runs as root or as we do, in the PID namespace that
// this /proc shows. From /proc/PID/status: "Uid:" is real, effective, saved and file
// system UID; "NSpid:" (Linux 4.1) has one number for each PID namespace below.
func (s scanner) isOurs(pid int) (bool, error) {
	b, err := s.read(pid, "status", 64<<10)
	if err != nil {
		return false, err
	}
	var user string
	depth := 1
	for line := range strings.Lines(string(b)) {
		switch f := strings.Fields(line); {
		case len(f) > 2 && f[0] == "Uid:":
			user = f[2]
		case len(f) > 0 && f[0] == "NSpid:":
			depth = len(f) - 1
		}
	}
	if user == "" {
		return false, fmt.Errorf("cannot read %s: no Uid line", s.path(pid, "status"))
	}
	return depth == 1 && (user == "0" || user == strconv.Itoa(os.Geteuid())), nil
}

// inPod says whether the process is in the cgroup of a pod of this node. Where the node is
// a container in a pod of another, and sees that one's cgroups, so is everything, its init first.
func (s scanner) inPod(pid int) bool {
	pod := s.podOf(pid)
	return pod != "" && pod != s.podOf(1)
}

// podOf returns the innermost pod whose cgroup a process is in, "" where it is in none or
// nobody can tell.
func (s scanner) podOf(pid int) (pod parsers.PodUID) {
	text, err := s.read(pid, "cgroup", 64<<10)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		for part := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "/") {
			if uid, ok := cgroupPod(part); ok {
				pod = uid
			}
		}
	}
	return pod
}

// clockTick is the unit of starttime. It is 10 ms on every port of Linux that Go has, but
// the kernel is the one to ask: AT_CLKTCK of getauxval(3), 17 in linux/auxvec.h. The time
// itself counts from the boot with suspend, as CLOCK_BOOTTIME does (start_boottime, called
// real_start_time before Linux 5.5).
func clockTick() (time.Duration, error) {
	const atClockTick = 17
	vector, err := unix.Auxv()
	if err != nil {
		return 0, fmt.Errorf("cannot read the clock's unit: %w", err)
	}
	for _, pair := range vector {
		if pair[0] == atClockTick && pair[1] > 0 {
			return time.Second / time.Duration(pair[1]), nil
		}
	}
	return 0, errors.New("cannot read the clock's unit: the kernel tells none")
}
