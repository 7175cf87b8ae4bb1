package poddir

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

const mostVolumes = 1000 // of one pod; a node attaches some hundred

// Users returns the users of volumes among the living pods of the listing: of CSI volumes, if staged is
// true, and of the block volumes of b.
func (r *Reader) Users(ctx context.Context, d *Dirs, b *Blocks, staged bool, lives func(parsers.PodUID) bool) (none reading.VolumeUsers) {
	if !staged && len(b.CSI) == 0 {
		return none
	}
	living := map[parsers.PodUID]bool{}
	for _, e := range d.Names {
		if uid, ok := parsers.ParsePodUID(e.Name); ok && lives(uid) {
			living[uid] = true
		}
	}
	users, err := bounded.On(ctx, r.Guard, "volumes of living pods", d.Pods, func(pods int) (u reading.VolumeUsers) {
		for uid := range living {
			if staged && ctx.Err() == nil {
				u.Files = append(u.Files, fileUsers(r.Open.At(pods), uid)...)
			}
		}
		return u
	})
	if err != nil {
		return none // without a user, what is staged keeps the pod
	}
	users.Blocks = map[string][]reading.VolumeUser{}
	for volume, all := range b.Users {
		for _, u := range all {
			if u.Lives = living[u.UID]; u.Lives {
				users.Blocks[volume] = append(users.Blocks[volume], u)
			}
		}
	}
	return users
}

// fileUsers returns the CSI volumes of one pod. It opens the mount points, since any user can make a mount with such a path
// in mountinfo.
func fileUsers(pods *beneath.Dir, uid parsers.PodUID) (users []reading.StagedUser) {
	_ = eachVolume(pods, uid, func(dir *beneath.Dir, v volData) { // a volume that cannot be read has no user
		u := reading.StagedUser{VolumeUser: reading.VolumeUser{UID: uid, Volume: v.volume(), Lives: true, Mounted: mountPoint(dir, "mount")}}
		for _, at := range v.globalMounts() {
			u.Paths = append(u.Paths, at.path())
		}
		users = append(users, u)
	})
	return users
}

// eachVolume calls do for each CSI volume of the pod with its vol_data.json. The error is that of the first volume that could
// not be read.
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

// mountPoint reports whether name is a mount point. It does not ask the mounted file system.
func mountPoint(parent *beneath.Dir, name string) bool {
	handle, err := parent.Handle(name)
	handle.Close()
	return errors.Is(err, unix.EXDEV)
}
