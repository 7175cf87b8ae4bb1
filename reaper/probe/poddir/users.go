package poddir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// mostVolumes bounds the volumes of one pod that are asked about; a node attaches some hundred.
const mostVolumes = 1000

// Users finds the pods that use volumes now, of those of the listing that live: the CSI volumes
// of all of them, where staged is true, and the block volumes that b has.
func (r *Reader) Users(ctx context.Context, d *Dirs, b *Blocks, staged bool, lives func(parsers.PodUID) bool) (none reading.VolumeUsers) {
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
	users, err := bounded.On(ctx, r.Guard, "volumes of living pods", d.Pods, func(pods int) (u reading.VolumeUsers) {
		for _, uid := range living {
			if staged && ctx.Err() == nil {
				u.Files = append(u.Files, fileUsers(r.Open.At(pods), uid)...)
			}
		}
		return u
	})
	if err != nil {
		return none // no user of a volume is known: what is staged keeps
	}
	if d.csi == nil || len(names) == 0 {
		return users
	}
	blocks, err := bounded.On(ctx, r.Guard, "block volumes", d.csi, func(csi int) map[string][]reading.VolumeUser {
		found := map[string][]reading.VolumeUser{}
		for _, name := range slices.Compact(names) {
			found[name] = blockUsers(r.Open.At(csi), name, living)
		}
		return found
	})
	if err == nil {
		users.Blocks = blocks
	}
	return users
}

// fileUsers are the CSI volumes of one pod that it has mounted, by the open itself: mountinfo could name a mount of another
// user's making.
func fileUsers(pods *beneath.Dir, uid parsers.PodUID) (users []reading.StagedUser) {
	_ = eachVolume(pods, uid, func(dir *beneath.Dir, v volData) { // what cannot be read uses nothing
		u := reading.StagedUser{VolumeUser: reading.VolumeUser{UID: uid, Volume: v.volume(), Lives: true, Mounted: mountPoint(dir, "mount")}}
		for _, at := range v.globalMounts() {
			u.Paths = append(u.Paths, at.path())
		}
		users = append(users, u)
	})
	return users
}

// eachVolume gives each CSI volume of the pod that has a vol_data.json to do. The error is the first of those that were not read.
func eachVolume(pods *beneath.Dir, uid parsers.PodUID, do func(dir *beneath.Dir, v volData)) (first error) {
	dir, err := pods.Walk(string(uid), "volumes", csiPlugin)
	if err != nil {
		if beneath.Gone(err) {
			return nil // it has no volume
		}
		return err
	}
	defer dir.Close()
	names, first := beneath.List(dir.FD(), mostVolumes)
	for _, e := range names {
		volume, err := dir.Walk(e.Name)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue
		}
		var v volData
		if err == nil {
			if v, err = readVolData(volume, mostVolData); err == nil {
				do(volume, v)
			} else {
				err = fmt.Errorf("%s: %w", clean.Name(e.Name), err)
			}
			volume.Close()
		}
		first = cmp.Or(first, err)
	}
	return first
}

// readVolData reads the volume from the vol_data.json in its directory.
func readVolData(dir *beneath.Dir, limit int64) (volData, error) {
	text, err := dir.ReadFile(contents.VolData, limit)
	if err != nil {
		return volData{}, err
	}
	v, ok := parseVolData(text)
	if !ok {
		return v, errNoVolume
	}
	return v, nil
}

var errNoVolume = errors.New("its " + contents.VolData + " does not name its volume")

// blockUsers are the pods, of those that live, for which the block volume is published or mapped:
// publish/VOLUME/UID and VOLUME/dev/UID are bind mounts of its device.
func blockUsers(csi *beneath.Dir, volume string, living []parsers.PodUID) []reading.VolumeUser {
	var users []reading.VolumeUser
	for _, at := range [...][]string{{"volumeDevices", "publish", volume}, {"volumeDevices", volume, "dev"}} {
		dir, err := csi.Walk(at...)
		if err != nil {
			continue
		}
		for _, uid := range living {
			users = append(users, reading.VolumeUser{
				UID: uid, Volume: reading.BlockVolume(volume), Lives: true, Mounted: mountPoint(dir, string(uid)),
			})
		}
		dir.Close()
	}
	return users
}

// mountPoint reports whether name is one, by the open itself, which nothing mounted answers.
func mountPoint(parent *beneath.Dir, name string) bool {
	handle, err := parent.Handle(name)
	handle.Close()
	return errors.Is(err, unix.EXDEV)
}
