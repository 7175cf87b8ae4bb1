package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// blocks are the pods that a block volume is published or mapped for.
type blocks struct {
	pods map[parsers.PodUID]string
	// csi has the entries of those pods all of whose entries are of CSI block volumes.
	csi map[parsers.PodUID][]blockEntry
	err error
}

// deepestBlock: plugins/kubernetes.io/PLUGIN/volumeDevices/publish/SPEC/UID, and
// …/volumeDevices/SPEC/dev/UID; in the kubelet's own tree …/volumeDevices/VOLUME/UID,
// where VOLUME may hold slashes.
const (
	deepestBlock = 6
	mostBlocks   = 100_000
)

func (p *Probe) blocks(ctx context.Context, root *bounded.Handle, w parsers.PodSet) *blocks {
	b, err := bounded.On(ctx, p.guard, "block volumes", root, func(fd int) *blocks { return p.readBlocks(fd, w) })
	if err != nil {
		return &blocks{err: fmt.Errorf("cannot list the block volumes: %w", err)}
	}
	return b
}

// readBlocks lists below plugins/kubernetes.io/*/volumeDevices whatever is named by a
// wanted UID, in all layouts at once. Nothing there is opened but directories.
func (p *Probe) readBlocks(root int, w parsers.PodSet) *blocks {
	b := &blocks{pods: map[parsers.PodUID]string{}, csi: map[parsers.PodUID][]blockEntry{}}
	left := mostBlocks
	dir, err := p.open.Walk(root, "plugins", "kubernetes.io")
	if err == nil {
		var plugins []beneath.Entry
		plugins, err = beneath.List(dir, mostBlocks)
		for _, d := range plugins {
			if err != nil {
				break
			}
			var devices int
			devices, err = p.open.Walk(dir, d.Name, "volumeDevices")
			if err == nil {
				err = b.list(p.open, devices, d.Name+"/volumeDevices", deepestBlock, &left, w)
			}
			if beneath.Gone(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				err = nil
			}
		}
		beneath.Close(dir)
	}
	if err != nil && !beneath.Gone(err) {
		b.err = fmt.Errorf("cannot list the block volumes: %w", err)
	}
	return b
}

// list takes dir over.
func (b *blocks) list(o *beneath.Opener, dir int, path string, depth int, left *int, w parsers.PodSet) error {
	defer beneath.Close(dir)
	entries, err := beneath.List(dir, *left)
	if err != nil {
		return beneath.PathError("getdents", path, err)
	}
	*left -= len(entries)
	for _, d := range entries {
		at := path + "/" + d.Name
		if uid, ok := w.Component([]byte(d.Name)); ok {
			volume, ok := csiBlock(at)
			if _, known := b.pods[uid]; ok && d.Name == string(uid) && (!known || b.csi[uid] != nil) {
				b.csi[uid] = append(b.csi[uid], blockEntry{volume, bareFile(o, dir, d.Name)})
			} else {
				delete(b.csi, uid)
			}
			b.pods[uid] = "plugins/kubernetes.io/" + clean.Name(at) + " exists"
			continue
		}
		if at == "csi/volumeDevices/staging" {
			continue // by volume, not by pod, and laid out as each driver likes
		}
		if d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
			continue
		}
		if depth == 0 {
			return beneath.PathError("open", at, errors.New("deeper than any block volume of "+strconv.Itoa(deepestBlock)+" levels"))
		}
		next, err := o.Dir(dir, d.Name)
		switch {
		case err == nil:
			err = b.list(o, next, at, depth-1, left, w)
		case beneath.Gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			// What a driver mounted there is its own; the kubelet makes the entry beside it.
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
