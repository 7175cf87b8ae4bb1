package mounts

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Umount is the command that takes the pod's mount away, "" where there is none. It is for the
// node's own namespace only: in that of a container the command would run the container's own
// umount with all privileges. What a container has mounted goes with the container.
func (m *Answer) Umount(uid parsers.PodUID) string {
	h, ok := m.Pods[uid]
	if !ok || !strings.Contains(h.Target, "/pods/"+string(uid)+"/") {
		return ""
	}
	if pid, in := h.PID(); !in || pid != "1" {
		return ""
	}
	return UmountCommand(h.Target)
}

// UmountCommand is the command that takes a mount away from the node's own namespace, "" where the
// path is none that a person should copy.
func UmountCommand(path string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '\\' || r > '~' }) {
		return ""
	}
	return "umount " + clean.Shell(path)
}
