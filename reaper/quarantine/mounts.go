package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Mount is a mount below a pod's directory in the mount namespace of this process.
type Mount struct {
	mountinfo.Info
	// Keeps is why it is not unmounted, "" if nothing speaks against it.
	Keeps string
}

// String describes the mount for display.
func (m Mount) String() string {
	return fmt.Sprintf("%s (%s, %s)", bounded.Name(m.Mountpoint), bounded.Name(m.FSType), bounded.Name(m.Source))
}

// Mounts returns the mounts below pods/UID, whose directory has to be id, each before those that it is mounted on. They are
// found by file system and directory, not by the path of the pods directory: where the kubelet's root is a bind mount, a
// mount of a pod may have been made at the root's other path, and lie there alone.
func (q *Quarantine) Mounts(uid parsers.PodUID, id judge.FileID) ([]Mount, error) {
	dir, err := q.openPod(uid, id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts: %w", err)
	}
	pod, err := placeOf(dir, all)
	if err != nil {
		return nil, err
	}
	return pod.mounts(all), nil
}

func (q *Quarantine) openPod(uid parsers.PodUID, id judge.FileID) (*fdpath.Dir, error) {
	if err := validate(uid, string(uid)+".0"); err != nil {
		return nil, err
	}
	pods, err := q.openPods()
	if err != nil {
		return nil, err
	}
	defer pods.Close()
	dir, err := pods.Step(string(uid))
	if err != nil {
		return nil, fdpath.OpenError(q.podsPath(string(uid)), err)
	}
	if got, err := dir.ID(); err != nil || !same(id, got) {
		dir.Close()
		return nil, fdpath.PathError("statx", q.podsPath(string(uid)), errors.Join(err, errReplaced))
	}
	return dir, nil
}

// place is a directory of a file system.
type place struct {
	major, minor int
	path         string // from the root of the file system, and not of a mount
}

// placeOf returns the place of an open directory. The path in /proc is from the root of this process, as those of mountinfo.
func placeOf(dir *fdpath.Dir, all []*mountinfo.Info) (place, error) {
	id, err := dir.MountID()
	if err != nil {
		return place{}, fmt.Errorf("cannot find the mount of the pods directory: %w", err)
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", dir.FD()))
	if err != nil {
		return place{}, err
	}
	for _, m := range all {
		if uint64(m.ID) == id { // mount IDs are positive
			if p, ok := within(m, at); ok {
				return p, nil
			}
		}
	}
	return place{}, fmt.Errorf("the mounts of this process do not have that of %s", bounded.Name(at))
}

// within returns the place of a path that lies on the mount m.
func within(m *mountinfo.Info, at string) (place, bool) {
	rel, ok := below(m.Mountpoint, at)
	return place{m.Major, m.Minor, path.Join(m.Root, rel)}, ok
}

// below returns the path from dir to at, "" if they are the same. It returns false if at is not below dir.
func below(dir, at string) (string, bool) {
	rel, ok := strings.CutPrefix(at, strings.TrimSuffix(dir, "/"))
	return strings.TrimPrefix(rel, "/"), ok && (rel == "" || rel[0] == '/')
}

// mounts returns the mounts below the place.
func (p place) mounts(all []*mountinfo.Info) []Mount {
	byID := map[int]*mountinfo.Info{}
	for _, m := range all {
		byID[m.ID] = m
	}
	// depth returns how many mounts of the pod lie between m and the pod's directory, and 0 if m does not lie there.
	var depth func(m *mountinfo.Info, most int) int
	depth = func(m *mountinfo.Info, most int) int {
		parent := byID[m.Parent]
		if parent == nil || parent == m || most == 0 {
			return 0
		}
		at, ok := within(parent, m.Mountpoint)
		if rel, in := below(p.path, at.path); ok && in && rel != "" && at.major == p.major && at.minor == p.minor {
			return 1
		}
		if n := depth(parent, most-1); n > 0 {
			return n + 1
		}
		return 0
	}
	var found []Mount
	depths := map[int]int{}
	for _, m := range all {
		if depths[m.ID] = depth(m, len(all)); depths[m.ID] > 0 {
			found = append(found, Mount{Info: *m, Keeps: p.keeps(m)})
		}
	}
	slices.SortStableFunc(found, func(a, b Mount) int { return depths[b.ID] - depths[a.ID] })
	return found
}

// keeps returns why a mount is kept: it shows a file that was deleted, and nothing else holds its content. What is in memory
// and what the kubelet made may go with a dead pod: a subPath of a configMap that has changed since is of this kind.
func (p place) keeps(m *mountinfo.Info) string {
	root, deleted := strings.CutSuffix(m.Root, "//deleted")
	if !deleted || m.FSType == "tmpfs" {
		return ""
	}
	if rel, ok := below(p.path, root); ok && rel != "" && m.Major == p.major && m.Minor == p.minor {
		if class, uniform := content.OfTree(strings.Split(rel, "/")); uniform && class != content.Data {
			return ""
		}
	}
	return "the file that it shows was deleted, and only this mount keeps its content: copy what is needed, then unmount it by umount"
}
