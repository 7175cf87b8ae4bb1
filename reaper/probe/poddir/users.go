package poddir

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// Users are the pods that live and the CSI volumes that they have, with the staging paths
// that are theirs. They are asked for only where a volume of a dead pod is staged.
type Users struct {
	files  []fileUser
	blocks map[string][]reading.VolumeUser // by the volume's name, for block volumes
}

type fileUser struct {
	reading.VolumeUser
	paths []string // as staging has them
}

// mostVolumes bounds the volumes of one pod that are asked about; a node attaches some hundred.
const mostVolumes = 1000

// Holder returns the pod that holds what is staged at path, of a dead pod's volume.
func (u *Users) Holder(dead parsers.PodUID, v reading.CSIVolume, path string) (parsers.PodUID, bool) {
	for _, f := range u.files {
		if f.Holds(dead, v) && slices.Contains(f.paths, path) {
			return f.UID, true
		}
	}
	return "", false
}

// BlockHolder does so for a block volume. The directory that it is in names it, for all its pods.
func (u *Users) BlockHolder(dead parsers.PodUID, name string) (parsers.PodUID, bool) {
	for _, b := range u.blocks[name] {
		if b.Holds(dead, blockVolume(name)) {
			return b.UID, true
		}
	}
	return "", false
}

func blockVolume(name string) reading.CSIVolume {
	return reading.CSIVolume{Driver: csiPlugin, Handle: name}
}

// Users finds the pods that use volumes now, of those of the listing that live: the CSI volumes
// of all of them, where staged is true, and the block volumes that b has.
func (r *Reader) Users(ctx context.Context, d *Dirs, b *Blocks, staged bool, lives func(parsers.PodUID) bool) (none Users) {
	var names []string
	for _, entries := range b.CSI {
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	if !staged && len(names) == 0 {
		return none
	}
	var living []parsers.PodUID
	for _, e := range d.Names {
		if uid, ok := parsers.ParsePodUID(e.Name); ok && lives(uid) {
			living = append(living, uid)
		}
	}
	slices.Sort(names)
	users, err := bounded.On(ctx, r.Guard, "volumes of living pods", d.Pods, func(pods int) (u Users) {
		for _, uid := range living {
			if staged && ctx.Err() == nil {
				u.files = append(u.files, r.fileUsers(pods, uid)...)
			}
		}
		return u
	})
	if err != nil {
		return none // nobody is known to hold a volume: what is staged keeps
	}
	if d.csi == nil || len(names) == 0 {
		return users
	}
	blocks, err := bounded.On(ctx, r.Guard, "block volumes", d.csi, func(csi int) map[string][]reading.VolumeUser {
		found := map[string][]reading.VolumeUser{}
		for _, name := range slices.Compact(names) {
			found[name] = r.blockUsers(csi, name, living)
		}
		return found
	})
	if err == nil {
		users.blocks = blocks
	}
	return users
}

// fileUsers are the CSI volumes of one pod that it has mounted. The open itself tells that:
// mountinfo could name a mount of somebody else's making.
func (r *Reader) fileUsers(pods int, uid parsers.PodUID) []fileUser {
	dir, err := r.Open.Walk(pods, string(uid), "volumes", csiPlugin)
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
		if u, ok := r.fileUser(dir, d.Name); ok {
			u.UID, u.Lives = uid, true
			users = append(users, u)
		}
	}
	return users
}

func (r *Reader) fileUser(dir int, name string) (fileUser, bool) {
	volume, err := r.Open.Dir(dir, name)
	if err != nil {
		return fileUser{}, false
	}
	defer beneath.Close(volume)
	text, err := r.Open.ReadFile(volume, contents.VolData, mostVolData)
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
	u.Mounted = r.mountPoint(volume, "mount")
	return u, true
}

// blockUsers are the pods, of those that live, for which the block volume is published or mapped:
// publish/VOLUME/UID and VOLUME/dev/UID are bind mounts of its device.
func (r *Reader) blockUsers(csi int, volume string, living []parsers.PodUID) []reading.VolumeUser {
	var users []reading.VolumeUser
	for _, at := range [...][]string{{"volumeDevices", "publish", volume}, {"volumeDevices", volume, "dev"}} {
		dir, err := r.Open.Walk(csi, at...)
		if err != nil {
			continue
		}
		for _, uid := range living {
			users = append(users, reading.VolumeUser{
				UID: uid, Volume: blockVolume(volume), Lives: true, Mounted: r.mountPoint(dir, string(uid)),
			})
		}
		beneath.Close(dir)
	}
	return users
}

// mountPoint says whether name is one, by the open itself, which nothing mounted answers.
func (r *Reader) mountPoint(parent int, name string) bool {
	fd, err := r.Open.Step(parent, name, beneath.Hold)
	if err == nil {
		beneath.Close(fd)
	}
	return errors.Is(err, unix.EXDEV)
}
