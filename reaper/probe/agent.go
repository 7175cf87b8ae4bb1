package probe

import (
	"io"
	"os"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// An agent with a hostPath of the node's root, and the usual propagation (None), has a copy of
// every mount that there was when it started, and keeps each until it ends: the kubelet's
// umount does not reach it. Nothing but its restart ends that.

// agent says which other pod's process keeps a mount that the namespace of PID 1 has not, "" where
// none does. The cgroup names the pod, and the runtime or the log directory its name.
func (l *gathering) agent(uid parsers.PodUID) string {
	h, ok := l.mounts.pods[uid]
	if !ok || h.view == nil || h.view.pid == "1" || h.view.held != "" {
		return ""
	}
	owner, ok := podOfProcess(l.probe.cfg.ProcDir + "/" + h.view.pid + "/cgroup")
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
func podOfProcess(path string) (parsers.PodUID, bool) {
	text, ok := readCgroup(path)
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

func readCgroup(path string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(text), err == nil
}
