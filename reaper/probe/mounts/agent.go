package mounts

import (
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
	owner, ok := m.Owner(h)
	return owner, ok && owner != uid
}

// Owner returns the pod of which a process keeps the mount in a namespace that is not the node's own.
func (m *Answer) Owner(h Hit) (parsers.PodUID, bool) {
	pid, in := h.PID()
	if !in || pid == "1" {
		return "", false
	}
	return procfs.PodOf(m.procDir, m.cgroups, pid)
}
