package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// scanner looks for kubelets among the processes of a /proc.
type scanner struct {
	procDir string
	// thorough also reads the command line of processes of any name, and counts scripts: for refusals, where one process
	// too many is the safe error.
	thorough bool
}

// kubelets returns all that run. A process that cannot be read is an error: it might be
// the second kubelet. Threads are not listed in /proc; zombies and kernel threads have no
// command line and so are none.
//
// Not every process that calls itself kubelet is this node's:
//   - not one of another user than root or ours: its PID would otherwise turn that user's forged log lines into
//     evidence;
//   - one in a PID namespace below this /proc's is the kubelet of a node in a container
//     (kind), whose root directory is another one of the same name; a kubelet that runs in
//     a container of this node shares the host's PID namespace, since it must see all
//     processes;
//   - one in a pod's cgroup is that pod's: its name would otherwise be enough to make the node's own
//     kubelet one of two;
//   - a child of a kubelet with the same command line is a fork that has not yet called
//     execve: the kubelet starts mount and umount in this way all the time.
func (s scanner) kubelets() ([]*Kubelet, error) {
	// Every PID namespace has a PID 1. A /proc that does not show it hides processes
	// (hidepid), or is none.
	if _, err := os.Stat(filepath.Join(s.procDir, "1")); err != nil {
		return nil, fmt.Errorf("%s does not show all processes: %w", s.procDir, err)
	}
	entries, err := os.ReadDir(s.procDir)
	if err != nil {
		return nil, err
	}
	tick, err := procfs.ClockTick()
	if err != nil {
		return nil, err
	}
	var all []*Kubelet
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		k, err := s.kubelet(pid, tick)
		switch {
		case errors.Is(err, procfs.ErrEnded):
		case err != nil:
			return nil, err
		case k != nil:
			all = append(all, k)
		}
	}
	forked := func(k *Kubelet) bool {
		return slices.ContainsFunc(all, func(parent *Kubelet) bool {
			return parent.ID.PID == k.parent && slices.Equal(parent.args, k.args)
		})
	}
	return slices.DeleteFunc(slices.Clone(all), forked), nil
}

// kubelet reads one process; nil where it is no kubelet.
func (s scanner) kubelet(pid int, tick time.Duration) (*Kubelet, error) {
	comm, err := procfs.Read(s.procDir, pid, "comm", 4<<10)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(string(comm), "\n")
	// comm is one short read; the command line lies in the process's own memory, is slower
	// to get, and waits forever where the process hangs with its memory locked. So it is
	// read of those only whose name may be a kubelet's (also k3s-server, .kubelet-wrapped), and that
	// neither a pod nor another user runs: who does can have it never answer.
	if !s.thorough && !strings.Contains(name, "kube") && !strings.Contains(name, "k3s") {
		return nil, nil // no kubelet is an answer, not an error
	}
	if ours, err := s.isOurs(pid); err != nil || !ours {
		return nil, err
	}
	if _, inPod := procfs.PodOf(s.procDir, "", strconv.Itoa(pid)); inPod && !s.thorough {
		return nil, nil // no kubelet is an answer, not an error
	}
	cmdline, err := procfs.Read(s.procDir, pid, "cmdline", procfs.MaxCmdline)
	if err != nil {
		return nil, err
	}
	k, ok := parseCommand(name, SplitCmdline(cmdline))
	if !ok || k.script && !s.thorough {
		return nil, nil // no kubelet is an answer, not an error
	}
	before, err := procfs.StatOf(s.procDir, pid)
	if err != nil {
		return nil, err
	}
	k.hidden = isTitle(cmdline)
	if k.files, err = s.filesOf(pid, before.Start); err != nil {
		return nil, err
	}
	if k.configure(); k.rootErr == nil {
		k.rootDir, k.rootErr = k.findRootDir(procfs.Path(s.procDir, pid, "cwd"))
	}
	k.LogFormat = k.logsIn()
	// The same number and another start is another process.
	after, err := procfs.StatOf(s.procDir, pid)
	if err != nil {
		return nil, err
	}
	if after != before {
		return nil, procfs.ErrEnded
	}
	k.ID = policy.KubeletID{PID: pid, Start: time.Duration(after.Start) * tick}
	k.parent = after.Parent
	return k, nil
}

// isOurs reports whether the process runs as root or as we do, in the PID namespace that
// this /proc shows. From /proc/PID/status: "Uid:" is real, effective, saved and file
// system UID; "NSpid:" (Linux 4.1) has one number for each PID namespace below.
func (s scanner) isOurs(pid int) (bool, error) {
	b, err := procfs.Read(s.procDir, pid, "status", 1<<20)
	if err != nil {
		return false, err
	}
	ids, depth := strings.Fields(procfs.StatusField(b, "Uid:")), len(strings.Fields(procfs.StatusField(b, "NSpid:")))
	if len(ids) == 0 {
		return false, fmt.Errorf("cannot read %s: no Uid line", procfs.Path(s.procDir, pid, "status"))
	}
	user := ids[0] // the effective one is root's for any user who executes a program that is set-user-ID
	return depth <= 1 && (user == "0" || user == strconv.Itoa(os.Geteuid())), nil
}
