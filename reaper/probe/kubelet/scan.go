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

// scanner finds kubelets among the processes of a /proc.
type scanner struct {
	procDir string
	// thorough also reads the command lines of processes of pods and of any name, and counts scripts. It is for refusals,
	// where one process too many is the safe error.
	thorough bool
}

// kubelets returns all running kubelets. A process that cannot be read is an error, since it might be
// another kubelet. Zombies and kernel threads have no command line and do not count, and neither do these
// processes:
//   - of another user than root or ours: with its PID, log lines that this user forged would be evidence;
//   - in a PID namespace below this /proc's: the kubelet of a node in a container (kind), which has another
//     root directory with the same path. A kubelet in a container of this node shares the host's PID
//     namespace, since it must see all processes;
//   - in a pod's cgroup: any pod could otherwise run a second kubelet by name alone;
//   - a child of a kubelet with the same command line: a fork that has not called execve yet. The kubelet
//     starts mount and umount in this way all the time.
func (s scanner) kubelets() ([]*Kubelet, error) {
	// Every PID namespace has a PID 1. Without it /proc hides processes (hidepid).
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

// kubelet reads one process. It returns nil if that is not a kubelet.
func (s scanner) kubelet(pid int, tick time.Duration) (*Kubelet, error) {
	comm, err := procfs.Read(s.procDir, pid, "comm", 4<<10)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(string(comm), "\n")
	// The command line lies in the process's own memory: reading it is slow, and hangs if the process hangs
	// with its memory locked. So read it only if the name may be a kubelet's (also k3s-server,
	// .kubelet-wrapped), and if neither a pod nor another user runs it, which could make the read hang.
	if !s.thorough && !strings.Contains(name, "kube") && !strings.Contains(name, "k3s") {
		return nil, nil
	}
	if ours, err := s.isOurs(pid); err != nil || !ours {
		return nil, err
	}
	if _, inPod := procfs.PodOf(s.procDir, "", strconv.Itoa(pid)); inPod && !s.thorough {
		return nil, nil
	}
	cmdline, err := procfs.Read(s.procDir, pid, "cmdline", procfs.MaxCmdline)
	if err != nil {
		return nil, err
	}
	k, ok := parseCommand(name, SplitCmdline(cmdline))
	if !ok || k.script && !s.thorough {
		return nil, nil
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
	k.LogFormat = k.logFormat()
	// Another start time means another process with the same PID.
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

// isOurs reports whether the process runs as root or as our user, in the PID namespace of this /proc. In
// /proc/PID/status, "Uid:" has the real, effective, saved and file system UID, and "NSpid:" (Linux 4.1) one
// PID for each namespace from this one down to its own.
func (s scanner) isOurs(pid int) (bool, error) {
	b, err := procfs.Read(s.procDir, pid, "status", 1<<20)
	if err != nil {
		return false, err
	}
	ids, depth := strings.Fields(procfs.StatusField(b, "Uid:")), len(strings.Fields(procfs.StatusField(b, "NSpid:")))
	if len(ids) == 0 {
		return false, fmt.Errorf("cannot read %s: no Uid line", procfs.Path(s.procDir, pid, "status"))
	}
	user := ids[0] // any user who executes a set-user-ID program has root's effective UID
	return depth <= 1 && (user == "0" || user == strconv.Itoa(os.Geteuid())), nil
}
