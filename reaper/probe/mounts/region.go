package mounts

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A line of mountinfo has the directory of its file system that is mounted (field 4), and the mount point as the process sees
// it (field 5). The name of a pod in such a path is a hint: in a user namespace of their own any user can mount a tmpfs at
// /tmp/y/UID, from a source of any name. What counts is the place in the pods' own file system. The device of the line gives
// the place of field 4, and that of the parent mount the place of field 5.
//
// Field 4 follows a directory that was moved, and keeps the last path of one that was removed.

type region = procfs.Region

// regions are the directories whose mounts count: pods and quarantine, and plugins.
type regions struct {
	pods    []region
	plugins []region
}

// findRegions finds the directories. If one cannot be found, it returns none, and names in paths count.
func (s *scan) findRegions() regions {
	var r regions
	for _, d := range []struct {
		path string
		to   *[]region
	}{
		{s.RootDir + "/pods", &r.pods}, {s.QuarantineDir, &r.pods}, {s.RootDir + "/plugins", &r.plugins},
	} {
		found, err := s.region(d.path)
		if err == nil {
			*d.to = append(*d.to, found)
		} else if !beneath.Gone(err) {
			return regions{}
		}
	}
	return r
}

// region finds one directory by an O_PATH handle, which does not ask the file system.
func (s *scan) region(dir string) (region, error) {
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return region{}, err
	}
	defer beneath.Close(fd)
	return procfs.RegionOf(s.ProcDir, fd)
}

// location reports whether a path of a line of mountinfo is in a region.
type location int

const (
	unlocated location = iota // unknown
	elsewhere
	within
)

// locate returns the location of a path of a file system, and its path below the region.
func locate(dev, fsType []byte, at string, in []region) (location, string) {
	if len(in) == 0 {
		return unlocated, ""
	}
	result := elsewhere
	for _, r := range in {
		if string(dev) != r.Dev {
			if !oneSuperblock[r.FSType] || !oneSuperblock[string(fsType)] {
				result = unlocated
			}
			continue
		}
		if below, ok := procfs.Relative(at, r.Path); ok && strings.Trim(below, "/") != "" {
			return within, strings.TrimPrefix(below, "/")
		}
	}
	return result, ""
}

// oneSuperblock lists file systems with one device number each. A network file system may be mounted
// twice, each time with another device number.
var oneSuperblock = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "tmpfs": true, "ramfs": true,
	"proc": true, "sysfs": true, "devtmpfs": true, "devpts": true, "mqueue": true, "cgroup": true, "cgroup2": true, "nsfs": true, "rootfs": true,
}

// mountPoint locates the mount point, which lies on the parent mount.
func (t *table) mountPoint(l *procfs.MountLine, in []region) (location, string) {
	p, ok := t.byID[string(l.Parent)]
	if !ok {
		return unlocated, ""
	}
	below, ok := procfs.Relative(procfs.Unescape(l.Target), procfs.Unescape(p.Target))
	if !ok {
		return unlocated, ""
	}
	return locate(p.Dev, p.FSType(), path.Join(procfs.Unescape(p.Root), below), in)
}

// origin locates the root of the mount.
func origin(l *procfs.MountLine, in []region) (location, string) {
	return locate(l.Dev, l.FSType(), procfs.Unescape(l.Root), in)
}

// concerns reports whether the line is a mount in the pod's directory or of something in it. An unlocated
// path that names the pod counts, unless it is in another user namespace, where any user can choose it.
func (v *view) concerns(l *procfs.MountLine, t *table, r *regions, uid parsers.PodUID) bool {
	if len(r.pods) == 0 {
		return true
	}
	in := parsers.PodSet{uid: true}
	named := func(at location, below string, text []byte) bool {
		switch at {
		case within: // the pod's directory, or its entry in quarantine
			first, _, _ := strings.Cut(below, "/")
			_, ok := in.Component([]byte(first))
			return ok
		case unlocated:
			return !v.apart && len(in.InPath(nil, text)) > 0
		case elsewhere:
		}
		return false
	}
	at, below := origin(l, r.pods)
	if named(at, below, l.Root) {
		return true
	}
	at, below = t.mountPoint(l, r.pods)
	if named(at, below, l.Target) {
		return true
	}
	found := false
	if !v.apart {
		in.InText(l.Rest, func(parsers.PodUID) { found = true })
	}
	return found
}

// staged reports whether a line that names a plugins directory counts as a mount below the kubelet's. A driver's
// container may see that at any path, so the name is enough, except in another user namespace.
func (v *view) staged(l *procfs.MountLine, t *table, r *regions) bool {
	if len(r.plugins) == 0 || !v.apart {
		return true
	}
	if at, _ := origin(l, r.plugins); at == within {
		return true
	}
	at, _ := t.mountPoint(l, r.plugins)
	return at == within
}
