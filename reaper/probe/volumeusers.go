package probe

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// livingVolumes are the pods that live and the CSI volumes that they have, with the staging paths
// that are theirs. They are asked for only where a volume of a dead pod is staged.
type livingVolumes struct {
	files  []fileUser
	blocks map[string][]policy.VolumeUser // by the volume's name, for block volumes
}

type fileUser struct {
	policy.VolumeUser
	paths []string // as staging has them
}

// mostVolumes bounds the volumes of one pod that are asked about; a node attaches some hundred.
const mostVolumes = 1000

// held returns the pod that holds what is staged at path, of a dead pod's volume.
func (u *livingVolumes) held(dead parsers.PodUID, v policy.CSIVolume, path string) (parsers.PodUID, bool) {
	for _, f := range u.files {
		if f.Holds(dead, v) && slices.Contains(f.paths, path) {
			return f.UID, true
		}
	}
	return "", false
}

// heldBlock does so for a block volume. The directory that it is in names it, for all its pods.
func (u *livingVolumes) heldBlock(dead parsers.PodUID, name string) (parsers.PodUID, bool) {
	for _, b := range u.blocks[name] {
		if b.Holds(dead, blockVolume(name)) {
			return b.UID, true
		}
	}
	return "", false
}

func blockVolume(name string) policy.CSIVolume {
	return policy.CSIVolume{Driver: csiPlugin, Handle: name}
}

// livingVolumes finds the users of the volumes that are staged and that some pod of reads has.
func (l *gathering) livingVolumes(ctx context.Context, reads []*podRead) livingVolumes {
	var names []string
	files := slices.ContainsFunc(reads, func(r *podRead) bool { return len(l.staged(r)) > 0 })
	for _, entries := range l.blocks.csi {
		for _, e := range entries {
			names = append(names, e.name)
		}
	}
	if !files && len(names) == 0 {
		return livingVolumes{}
	}
	var living []parsers.PodUID
	for _, d := range l.names {
		if uid, ok := parsers.ParsePodUID(d.Name); ok && l.lives(ctx, uid) {
			living = append(living, uid)
		}
	}
	slices.Sort(names)
	p := l.probe
	users, err := bounded.On(ctx, p.guard, "volumes of living pods", l.pods, func(pods int) (u livingVolumes) {
		for _, uid := range living {
			if files && ctx.Err() == nil {
				u.files = append(u.files, p.fileUsers(pods, uid)...)
			}
		}
		return u
	})
	if err != nil {
		return livingVolumes{} // nobody is known to hold a volume: what is staged keeps
	}
	if l.csi == nil || len(names) == 0 {
		return users
	}
	blocks, err := bounded.On(ctx, p.guard, "block volumes", l.csi, func(csi int) map[string][]policy.VolumeUser {
		found := map[string][]policy.VolumeUser{}
		for _, name := range slices.Compact(names) {
			found[name] = p.blockUsers(csi, name, living)
		}
		return found
	})
	if err == nil {
		users.blocks = blocks
	}
	return users
}

// lives says whether the runtime has something of the pod, or a process is in its cgroup.
func (l *gathering) lives(ctx context.Context, uid parsers.PodUID) bool {
	return l.runtime.Sandboxes[uid] != "" || l.runtime.Containers[uid] != "" || l.cgroups.HasProcess(ctx, uid)
}

// fileUsers are the CSI volumes of one pod that it has mounted. The open itself tells that:
// mountinfo could name a mount of somebody else's making.
func (p *Probe) fileUsers(pods int, uid parsers.PodUID) []fileUser {
	dir, err := p.open.Walk(pods, string(uid), "volumes", csiPlugin)
	if err != nil {
		return nil
	}
	defer beneath.Close(dir)
	names, err := beneath.List(dir, mostVolumes)
	if err != nil && !errors.Is(err, beneath.ErrTooMany) {
		return nil
	}
	var users []fileUser
	for _, d := range names {
		if u, ok := p.fileUser(dir, d.Name); ok {
			u.UID, u.Lives = uid, true
			users = append(users, u)
		}
	}
	return users
}

func (p *Probe) fileUser(dir int, name string) (fileUser, bool) {
	volume, err := p.open.Dir(dir, name)
	if err != nil {
		return fileUser{}, false
	}
	defer beneath.Close(volume)
	text, err := p.open.ReadFile(volume, contents.VolData, mostVolData)
	if err != nil {
		return fileUser{}, false
	}
	v, ok := parseVolData(text)
	if !ok {
		return fileUser{}, false
	}
	var u fileUser
	u.Volume = v.volume()
	for _, names := range v.globalMounts() {
		u.paths = append(u.paths, stagingPath(names))
	}
	u.Mounted = p.mountPoint(volume, "mount")
	return u, true
}

// blockUsers are the pods, of those that live, for which the block volume is published or mapped:
// publish/VOLUME/UID and VOLUME/dev/UID are bind mounts of its device.
func (p *Probe) blockUsers(csi int, volume string, living []parsers.PodUID) []policy.VolumeUser {
	var users []policy.VolumeUser
	for _, at := range [...][]string{{"volumeDevices", "publish", volume}, {"volumeDevices", volume, "dev"}} {
		dir, err := p.open.Walk(csi, at...)
		if err != nil {
			continue
		}
		for _, uid := range living {
			users = append(users, policy.VolumeUser{
				UID: uid, Volume: blockVolume(volume), Lives: true, Mounted: p.mountPoint(dir, string(uid)),
			})
		}
		beneath.Close(dir)
	}
	return users
}

// mountPoint says whether name is one, by the open itself, which nothing mounted answers.
func (p *Probe) mountPoint(parent int, name string) bool {
	fd, err := p.open.Step(parent, name, beneath.Hold)
	if err == nil {
		beneath.Close(fd)
	}
	return errors.Is(err, unix.EXDEV)
}

// blockEntry is a CSI block volume's entry for one pod below plugins/kubernetes.io/csi.
type blockEntry struct {
	name string // the volume's
	// bare is true where nothing is left at it but the file that was mounted on.
	bare bool
}

// csiBlock recognises such an entry by its path below plugins/kubernetes.io.
func csiBlock(path string) (name string, ok bool) {
	parts := strings.Split(path, "/")
	switch {
	case len(parts) != 5 || parts[0] != "csi" || parts[1] != "volumeDevices":
	case parts[2] == "publish":
		return parts[3], true
	case parts[3] == "dev":
		return parts[2], true
	}
	return "", false
}

// bareFile reports whether the entry is an empty regular file and no mount point.
func bareFile(o *beneath.Opener, parent int, name string) bool {
	fd, err := o.Step(parent, name, beneath.Hold)
	if err != nil {
		return false
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0
}
