package probe

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// An agent with a hostPath of the node's root, and the usual propagation (None), has a copy of
// every mount that there was when it started, and keeps each until it ends: the kubelet's
// umount does not reach it. Nothing but its restart ends that.

// agent says which other pod's process keeps a mount that the namespace of PID 1 has not, "" where
// none does. The cgroup names the pod, and the runtime or the log directory its name.
func (l *gathering) agent(uid parsers.PodUID) string {
	h, ok := l.mounts.Pods[uid]
	if !ok {
		return ""
	}
	pid, in := h.PID()
	if !in || pid == "1" {
		return ""
	}
	owner, ok := podOfProcess(l.probe.cfg.ProcDir, pid)
	if !ok || owner == uid {
		return ""
	}
	name := "pod " + string(owner)
	if n, ok := l.runtime.Names[owner]; ok {
		name = "pod " + n.Namespace + "/" + n.Name
	} else if n, ok := l.logs.Names[owner]; ok {
		name = "pod " + n.Namespace + "/" + n.Name
	}
	return "; the process is of " + name + ": restart that pod, and the mount goes"
}

// podOfProcess reads which pod's cgroup a process is in.
func podOfProcess(procDir, pid string) (parsers.PodUID, bool) {
	text, ok := procfs.Cgroup(procDir, pid)
	if !ok {
		return "", false
	}
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if uid, ok := parsers.PodOfCgroup(part); ok {
				return uid, true
			}
		}
	}
	return "", false
}
