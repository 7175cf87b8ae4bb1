package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A line of /proc/PID/mountinfo, proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	(1)(2)(3)  (4)   (5)   (6)        (7)     (8)(9)  (10)      (11)
//
// (10) and (11), the source and the options, may also contain paths: an overlay's layers.
//
// (4) is the root of the mount within its file system: only this field names the emptyDir
// that a container has bind-mounted. (5) is the mount point, seen from the process's root.
// Space, tab, newline, backslash and # are written as octal escapes. These change neither
// a slash nor a UID, so both can be searched for in the raw bytes.

// Hit is a mount that names a pod or a place below the kubelet's plugins directory.
type Hit struct {
	Target  string // where it is mounted
	view    *view
	root    string
	fsType  string
	procDir string
}

// PID returns a process that shows the mount, and reports whether it is in the mount namespace. If not,
// a bind mount or a descriptor holds the namespace.
func (h Hit) PID() (pid string, in bool) { return h.view.pid, h.view.held == "" }

// below reports whether the mount point's path is below the pod's directory.
func (h Hit) below(uid parsers.PodUID) bool {
	return strings.Contains(h.Target, "/pods/"+string(uid)+"/")
}

// Words describes the mount for messages.
func (h Hit) Words() string {
	at := "mounted at " + clean.Name(h.Target)
	if h.root != "/" {
		at += ", from " + clean.Name(h.root)
	}
	return fmt.Sprintf("%s (%s) in %s", at, clean.Name(h.fsType), h.view.words(h.procDir))
}

var pluginsDir = []byte("/plugins/")

// scanMounts adds the mounts of one table that name a wanted pod or something below a
// plugins directory.
func (m *Answer) scanMounts(v *view, hold func(length int) error, t *table, w parsers.PodSet) error {
	var uids []parsers.PodUID
	for i := range t.lines {
		l := &t.lines[i]
		if !v.whole && string(l.Target) == "/" {
			v.whole = true
		}
		if procfs.IsMountNamespace(l.Root) {
			if _, ok := m.pinned[string(l.Root)]; !ok {
				if err := hold(len(l.Target)); err != nil {
					return err
				}
				m.pinned[string(l.Root)] = pin{view: v, target: procfs.Unescape(l.Target)}
			}
		}
		plugins := bytes.Contains(l.Target, pluginsDir) || bytes.Contains(l.Root, pluginsDir)
		uids = w.InPath(w.InPath(uids[:0], l.Target), l.Root)
		// Only this names the upper directory of an overlay, or the directory below a bindfs.
		w.InText(l.Rest, func(uid parsers.PodUID) { uids = append(uids, uid) })
		if c := m.collector; c != nil {
			c.addLine(v, l, slices.Contains(uids, c.uid), func() bool { return v.concerns(l, t, &m.where, c.uid) })
		}
		if len(uids) == 0 && !plugins {
			continue
		}
		if len(l.FSType()) == 0 {
			return errors.New("a line without a file system")
		}
		h := Hit{Target: procfs.Unescape(l.Target), view: v, root: procfs.Unescape(l.Root), fsType: procfs.Unescape(l.FSType()), procDir: m.procDir}
		for _, uid := range uids {
			// One mount is enough to keep the pod. Prefer to show the node's own, and one that unmounting the pod does not remove.
			old, known := m.Pods[uid]
			first := !known || v.pid == "1" && old.view.pid != "1"
			_, beyond := m.beyond[uid]
			beyond = !beyond && !h.below(uid)
			if (first || beyond) && v.concerns(l, t, &m.where, uid) {
				if first {
					m.Pods[uid] = h
				}
				if beyond {
					m.beyond[uid] = h
				}
			}
			if _, known := m.Again[uid]; !known && parsers.BareUID(l.Text, uid) {
				m.Again[uid] = h
			}
			if _, known := m.elder[uid]; !known && bytes.Contains(l.Text, []byte(string(uid)+".")) {
				m.elder[uid] = h
			}
		}
		if plugins && v.staged(l, t, &m.where) {
			if err := m.addPlugin(h, hold); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPlugin adds a mount below plugins/ under every key with which a volume is looked up: each
// directory that leads to it, and for in-tree volume plugins the pair of plugin and path
// component, since the depth of the volume's name differs. It finds the plugins directory by
// its name, since a CSI driver's container may have it at another path.
func (m *Answer) addPlugin(h Hit, hold func(length int) error) error {
	for _, path := range [...]string{h.Target, h.root} {
		path = strings.TrimSuffix(path, "//deleted")
		for range mostPlugins {
			_, tail, ok := strings.Cut(path, string(pluginsDir))
			if !ok {
				break
			}
			path = "/" + tail
			if m.seen[tail] {
				continue
			}
			if err := hold(len(tail)); err != nil {
				return err
			}
			m.addTail(tail, h)
		}
	}
	return nil
}

// mostPlugins and mostParts bound the keys of one path, which a pod's mountPath may have chosen. The paths of drivers are
// shorter.
const mostPlugins, mostParts = 4, 16

func (m *Answer) addTail(tail string, h Hit) {
	m.seen[tail] = true
	parts := strings.SplitN(tail, "/", mostParts+1)
	for i, end := 0, -1; i < min(len(parts), mostParts); i++ {
		end += 1 + len(parts[i])
		addFirst(m.Below, tail[:end], h)
		if i >= 2 {
			addFirst(m.named, parts[0]+"/"+parts[1]+"\x00"+parts[i], h)
		}
	}
}

func addFirst(to map[string]Hit, key string, h Hit) {
	if _, ok := to[key]; !ok {
		to[key] = h
	}
}

// Agent returns another pod whose process keeps a mount of this pod that the namespace of PID 1 does not have. Such an
// agent has a hostPath of the node's root with the default propagation (None): it has a copy of every mount that existed
// when it started, and the kubelet's umount does not remove the copy.
func (m *Answer) Agent(uid parsers.PodUID) (parsers.PodUID, bool) {
	h, ok := m.Pods[uid]
	if !ok {
		return "", false
	}
	owner, ok := m.Owner(h)
	return owner, ok && owner != uid
}

// Owner returns the pod whose process keeps the mount in a namespace other than that of PID 1.
func (m *Answer) Owner(h Hit) (parsers.PodUID, bool) {
	pid, in := h.PID()
	if !in || pid == "1" {
		return "", false
	}
	return procfs.PodOf(m.procDir, m.cgroups, pid)
}

// Unmount returns the command with which an operator unmounts the pod, "" if there is none: it removes only mounts of the
// node's own namespace below the pod's directory. Other mounts have to end first: see Reader.Below.
func (m *Answer) Unmount(uid parsers.PodUID) string {
	h, ok := m.Pods[uid]
	if _, beyond := m.beyond[uid]; !ok || beyond {
		return ""
	}
	if pid, in := h.PID(); !in || pid != "1" {
		return ""
	}
	return "orphan-reaper unmount " + string(uid)
}

// UmountCommand returns the command that unmounts a path of no pod in the node's own namespace, "" if the path is not safe
// to copy into a shell.
func UmountCommand(path string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '\\' || r > '~' }) {
		return ""
	}
	return "umount " + clean.Shell(path)
}
