package mounts

import (
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Umount is the command that takes the pod's mount away, "" where there is none. What a container
// has mounted at a path of its own goes with the container.
func (m *Answer) Umount(uid parsers.PodUID) string {
	h, ok := m.Pods[uid]
	if !ok || !strings.Contains(h.Target, "/pods/"+string(uid)+"/") {
		return ""
	}
	return UmountCommand(h.Target, h.view.pid)
}

// UmountCommand is the command that takes a mount away that a process sees, "" where the path
// is none that a person should copy.
func UmountCommand(path, pid string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '\\' || r > '~' }) {
		return ""
	}
	quoted := "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	if pid == "1" {
		return "umount " + quoted
	}
	return "nsenter -t " + pid + " -m umount " + quoted
}
