package mounts

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// An agent with a hostPath of the node's root, and the usual propagation (None), has a copy of
// every mount that there was when it started, and keeps each until it ends: the kubelet's
// umount does not reach it. Nothing but its restart ends that.

// Agent returns the other pod of which a process keeps the pod's mount that the namespace of PID 1
// has not, and false where there is none.
func (m *Answer) Agent(uid parsers.PodUID) (parsers.PodUID, bool) {
	h, ok := m.Pods[uid]
	if !ok {
		return "", false
	}
	pid, in := h.PID()
	if !in || pid == "1" {
		return "", false
	}
	owner, ok := podOfProcess(m.procDir, pid)
	return owner, ok && owner != uid
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
