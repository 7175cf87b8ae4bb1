package mounts

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A line of mountinfo has the place in its file system where a mount begins (field 4), and the mount point as a path of the
// process's view (field 5). The name of a pod in such a path is a hint: in a user namespace of their own any user can mount a
// tmpfs at /tmp/y/UID, from a source of any name. What counts is where that lies in the pods' own file system: of field 4
// by its device, of field 5 by the mount below it, which has the mount point.
//
// Field 4 is no proof of more than that: a directory that was moved shows where it is now, and
// one that was removed where it was.

type region = procfs.Region

// regions are the directories that can hold what must not be taken: pods, quarantine, plugins.
type regions struct {
	pods    []region
	plugins []region
}

// findRegions finds the directories by the mount of each. If one is not known none is, and a name in a path counts.
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

// region finds one directory. Its handle is opened by O_PATH: the file system is not asked.
func (s *scan) region(dir string) (region, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return region{}, err
	}
	defer beneath.Close(fd)
	return procfs.RegionOf(s.ProcDir, fd)
}

// bearing is what a path in a line of mountinfo is to a region.
type bearing int

const (
	unplaced bearing = iota // not known
	elsewhere
	within
)

// place returns where a path of a file system lies, and under which name below the region.
func place(dev, fsType []byte, at string, in []region) (bearing, string) {
	if len(in) == 0 {
		return unplaced, ""
	}
	result := elsewhere
	for _, r := range in {
		if string(dev) != r.Dev {
			if !oneSuperblock[r.FSType] || !oneSuperblock[string(fsType)] {
				result = unplaced
			}
			continue
		}
		if below, ok := procfs.Relative(at, r.Path); ok && strings.Trim(below, "/") != "" {
			return within, strings.TrimPrefix(below, "/")
		}
	}
	return result, ""
}

// oneSuperblock are file systems of which another device is another file system. One of the
// network may be mounted twice, each time as a device of its own.
var oneSuperblock = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "tmpfs": true, "ramfs": true,
	"proc": true, "sysfs": true, "devtmpfs": true, "devpts": true, "mqueue": true, "cgroup": true, "cgroup2": true, "nsfs": true, "rootfs": true,
}

// mountPoint returns where the mount point lies: the mount below has it.
func (t *table) mountPoint(l *procfs.MountLine, in []region) (bearing, string) {
	p, ok := t.byID[string(l.Parent)]
	if !ok {
		return unplaced, ""
	}
	below, ok := procfs.Relative(procfs.Unescape(l.Target), procfs.Unescape(p.Target))
	if !ok {
		return unplaced, ""
	}
	return place(p.Dev, p.FSType(), path.Join(procfs.Unescape(p.Root), below), in)
}

// origin returns where the root of the mount lies.
func origin(l *procfs.MountLine, in []region) (bearing, string) {
	return place(l.Dev, l.FSType(), procfs.Unescape(l.Root), in)
}

// concerns reports whether the line is about a mount of the pod, or of something in it. What is
// known of neither side by its device counts where no stranger can have written it.
func (v *view) concerns(l *procfs.MountLine, t *table, r *regions, uid parsers.PodUID) bool {
	if len(r.pods) == 0 {
		return true
	}
	in := parsers.PodSet{uid: true}
	named := func(b bearing, below string, text []byte) bool {
		switch b {
		case within: // the pod's directory, or its name in quarantine
			first, _, _ := strings.Cut(below, "/")
			_, ok := in.Component([]byte(first))
			return ok
		case unplaced:
			return !v.apart && len(in.InPath(nil, text)) > 0
		case elsewhere:
		}
		return false
	}
	b, below := origin(l, r.pods)
	if named(b, below, l.Root) {
		return true
	}
	b, below = t.mountPoint(l, r.pods)
	if named(b, below, l.Target) {
		return true
	}
	found := false
	if !v.apart {
		in.InText(l.Rest, func(parsers.PodUID) { found = true })
	}
	return found
}

// staged reports whether the line is about a mount below the plugins directory. A driver's
// container may see that at any path, so its name counts, unless a stranger may have written it.
func (v *view) staged(l *procfs.MountLine, t *table, r *regions) bool {
	if len(r.plugins) == 0 || !v.apart {
		return true
	}
	if b, _ := origin(l, r.plugins); b == within {
		return true
	}
	b, _ := t.mountPoint(l, r.plugins)
	return b == within
}
