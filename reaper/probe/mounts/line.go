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
// (9) and (10), the source and the options, may hold paths as well: an overlay's layers.
//
// (4) is the root of the mount within its file system: a container's bind of a pod's
// emptyDir is named there only. (5) is the mount point, seen from the process's root.
// Space, tab, newline, backslash and # are written as octal escapes, so neither a slash
// nor a UID is ever changed by them, and both can be searched for in the raw bytes.

// Hit is a mount that names a pod or a place below the kubelet's plugins directory.
type Hit struct {
	Target  string // where it is mounted
	view    *view
	root    string
	fsType  string
	procDir string
}

// PID returns a process that shows the mount, and whether that is in its mount namespace itself:
// something else may hold that, a bind of its file or a descriptor.
func (h Hit) PID() (pid string, in bool) { return h.view.pid, h.view.held == "" }

// below reports whether the mount point is a place below the pod's directory, by its path.
func (h Hit) below(uid parsers.PodUID) bool {
	return strings.Contains(h.Target, "/pods/"+string(uid)+"/")
}

// Words describes the mount for messages. comm is read only now, for what is shown.
func (h Hit) Words() string {
	at := "mounted at " + clean.Name(h.Target)
	if h.root != "/" {
		at += ", from " + clean.Name(h.root)
	}
	return fmt.Sprintf("%s (%s) in %s", at, clean.Name(h.fsType), h.view.words(h.procDir))
}

var pluginsDir = []byte("/plugins/")

// scanMounts finds in one mountinfo the lines that name a wanted pod or something below
// a plugins directory, and inspects those only.
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
		// An overlay's upper directory, or the one below a bindfs, is named here only.
		w.InText(l.Rest, func(uid parsers.PodUID) { uids = append(uids, uid) })
		if g := m.gather; g != nil {
			g.add(v, l, slices.Contains(uids, g.uid), func() bool { return v.concerns(l, t, &m.where, g.uid) })
		}
		if len(uids) == 0 && !plugins {
			continue
		}
		if len(l.FSType()) == 0 {
			return errors.New("a line without a file system")
		}
		h := Hit{Target: procfs.Unescape(l.Target), view: v, root: procfs.Unescape(l.Root), fsType: procfs.Unescape(l.FSType()), procDir: m.procDir}
		for _, uid := range uids {
			// One is enough to keep it, and the node's own is the one to show, or one that an unmount does not reach.
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

// addPlugin files what is mounted below plugins/ under every name that a pod's volume
// could ask for: each directory that leads to it, and for the volume plugins of the
// kubelet's own tree the pair of plugin and path component, since they put the volume's
// name at differing depths. The plugins directory is found by its name, not by the root
// directory's path: a CSI driver's container may see it elsewhere.
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

// mostPlugins and mostParts bound how a path below a directory of that name is filed: who writes a pod's
// mountPath may repeat it. No driver's is as deep.
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

// An agent with a hostPath of the node's root, and the usual propagation (None), has a copy of every mount that there was
// when it started, and keeps each until it ends: the kubelet's umount does not reach it.

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

// Unmount is the command with which an operator unmounts what is mounted of the pod, "" if there is none. It is for the
// node's own namespace and the pod's directory only. What is mounted elsewhere has to end first: see Reader.Below.
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

// UmountCommand is the command that unmounts a mount of no pod in the node's own namespace, "" if the path is none to
// copy.
func UmountCommand(path string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '\\' || r > '~' }) {
		return ""
	}
	return "umount " + clean.Shell(path)
}
