package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
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

func (p *Probe) blocks(ctx context.Context, root *bounded.Handle, w wanted) *blocks {
	b, err := bounded.On(ctx, p.guard, "block volumes", root, func(fd int) *blocks { return p.readBlocks(fd, w) })
	if err != nil {
		return &blocks{err: fmt.Errorf("cannot list the block volumes: %w", err)}
	}
	return b
}

// readBlocks lists below plugins/kubernetes.io/*/volumeDevices whatever is named by a
// wanted UID, in all layouts at once. Nothing there is opened but directories.
func (p *Probe) readBlocks(root int, w wanted) *blocks {
	b := &blocks{pods: map[parsers.PodUID]string{}, csi: map[parsers.PodUID][]blockEntry{}}
	left := mostBlocks
	dir, err := p.open.walk(root, "plugins", "kubernetes.io")
	if err == nil {
		var plugins []dirent
		plugins, err = listDir(dir, mostBlocks)
		for _, d := range plugins {
			if err != nil {
				break
			}
			var devices int
			devices, err = p.open.walk(dir, d.name, "volumeDevices")
			if err == nil {
				err = b.list(p.open, devices, d.name+"/volumeDevices", deepestBlock, &left, w)
			}
			if gone(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				err = nil
			}
		}
		closeFD(dir)
	}
	if err != nil && !gone(err) {
		b.err = fmt.Errorf("cannot list the block volumes: %w", err)
	}
	return b
}

// list takes dir over.
func (b *blocks) list(o opener, dir int, path string, depth int, left *int, w wanted) error {
	defer closeFD(dir)
	entries, err := listDir(dir, *left)
	if err != nil {
		return pathError("getdents", path, err)
	}
	*left -= len(entries)
	for _, d := range entries {
		at := path + "/" + d.name
		if uid, ok := w.component([]byte(d.name)); ok {
			volume, ok := csiBlock(at)
			if _, known := b.pods[uid]; ok && d.name == string(uid) && (!known || b.csi[uid] != nil) {
				b.csi[uid] = append(b.csi[uid], blockEntry{volume, o.bare(dir, d.name)})
			} else {
				delete(b.csi, uid)
			}
			b.pods[uid] = "plugins/kubernetes.io/" + clean(at) + " exists"
			continue
		}
		if at == "csi/volumeDevices/staging" {
			continue // by volume, not by pod, and laid out as each driver likes
		}
		if d.kind != unix.DT_DIR && d.kind != unix.DT_UNKNOWN {
			continue
		}
		if depth == 0 {
			return pathError("open", at, errors.New("deeper than any block volume of "+strconv.Itoa(deepestBlock)+" levels"))
		}
		next, err := o.dir(dir, d.name)
		switch {
		case err == nil:
			err = b.list(o, next, at, depth-1, left, w)
		case gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, errMount):
			// What a driver mounted there is its own; the kubelet makes the entry beside it.
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
