package poddir

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// Blocks has the pods for which a block volume is published or mapped.
type Blocks struct {
	Pods map[parsers.PodUID]string // an entry of each, for messages
	// CSI has the entries of pods with entries of CSI block volumes only.
	CSI map[parsers.PodUID][]reading.BlockEntry
	// Users has the pods with an entry of a CSI block volume, by the volume's name.
	Users map[string][]reading.VolumeUser
	Err   error
}

// An entry is plugins/kubernetes.io/PLUGIN/volumeDevices/publish/SPEC/UID or
// …/volumeDevices/SPEC/dev/UID, and of an in-tree plugin …/volumeDevices/VOLUME/UID, where VOLUME may
// have slashes.
const (
	deepestBlock = 6
	mostBlocks   = 100_000
)

// Blocks lists the block volumes of the pods of w.
func (r *Reader) Blocks(ctx context.Context, d *Dirs, w parsers.PodSet) *Blocks {
	b, err := bounded.On(ctx, r.Guard, "block volumes", d.Root, func(fd int) *Blocks { return readBlocks(r.Open.At(fd), w) })
	if err != nil {
		return &Blocks{Err: fmt.Errorf("cannot list the block volumes: %w", err)}
	}
	return b
}

// readBlocks lists the entries below plugins/kubernetes.io/*/volumeDevices that have the name of a
// wanted UID, in all layouts at once. It opens only directories.
func readBlocks(root *beneath.Dir, w parsers.PodSet) *Blocks {
	b := &Blocks{Pods: map[parsers.PodUID]string{}, CSI: map[parsers.PodUID][]reading.BlockEntry{}, Users: map[string][]reading.VolumeUser{}}
	left := mostBlocks
	dir, err := root.Walk("plugins", "kubernetes.io")
	if err == nil {
		var plugins []beneath.Entry
		plugins, err = beneath.List(dir.FD(), mostBlocks)
		for _, d := range plugins {
			if err != nil {
				break
			}
			var devices *beneath.Dir
			devices, err = dir.Walk(d.Name, "volumeDevices")
			if err == nil {
				err = b.list(devices, d.Name+"/volumeDevices", deepestBlock, &left, w)
			}
			if beneath.Gone(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				err = nil
			}
		}
		dir.Close()
	}
	if err != nil && !beneath.Gone(err) {
		b.Err = fmt.Errorf("cannot list the block volumes: %w", err)
	}
	return b
}

// list reads dir and closes it.
func (b *Blocks) list(dir *beneath.Dir, path string, depth int, left *int, w parsers.PodSet) error {
	defer dir.Close()
	entries, err := beneath.List(dir.FD(), *left)
	if err != nil {
		return beneath.PathError("getdents", path, err)
	}
	*left -= len(entries)
	for _, d := range entries {
		at := path + "/" + d.Name
		volume, csi := csiBlock(at)
		if uid, ok := parsers.ParsePodUID(d.Name); ok && csi { // publish/VOLUME/UID and VOLUME/dev/UID are bind mounts of its device
			b.Users[volume] = append(b.Users[volume], reading.VolumeUser{
				UID: uid, Volume: reading.BlockVolume(volume), Mounted: mountPoint(dir, d.Name),
			})
		}
		if uid, ok := w.Component([]byte(d.Name)); ok {
			if _, known := b.Pods[uid]; csi && d.Name == string(uid) && (!known || b.CSI[uid] != nil) {
				b.CSI[uid] = append(b.CSI[uid], reading.BlockEntry{Name: volume, Shown: clean.Name(volume), Bare: bareFile(dir, d.Name)})
			} else {
				delete(b.CSI, uid)
			}
			b.Pods[uid] = "plugins/kubernetes.io/" + clean.Name(at) + " exists"
			continue
		}
		if at == "csi/volumeDevices/staging" {
			continue // it is by volume, and each driver has its own layout
		}
		if d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
			continue
		}
		if depth == 0 {
			return beneath.PathError("open", at, fmt.Errorf("deeper than the %d levels of a block volume", deepestBlock))
		}
		next, err := dir.Walk(d.Name)
		switch {
		case err == nil:
			err = b.list(next, at, depth-1, left, w)
		case beneath.Gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			continue // a driver's mount: the kubelet makes the entry beside it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// csiBlock returns the volume of an entry of a CSI block volume, by its path below plugins/kubernetes.io.
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

// bareFile reports whether the entry is an empty regular file that is not a mount point.
func bareFile(parent *beneath.Dir, name string) bool {
	handle, err := parent.Handle(name)
	if err != nil {
		return false
	}
	defer handle.Close()
	st, err := handle.Stat()
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0
}
