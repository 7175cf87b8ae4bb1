package mounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// An overlay's options name its layers as whoever mounted it saw them: relative to where it
// worked, by /proc/self/fd, by a path of a container that has ended. Such a text tells nothing
// here. The root of an overlay has the inode number of its topmost layer, where its layers are of
// one file system or have numbers of at most 32 bits (xino, Linux 4.17): so that layer is looked
// for by its number in the pods' directories.

// overlayMount is an overlay of which no option names a wanted pod.
type overlayMount struct {
	view        *view
	target, top string
}

// topLayer returns the layer whose inode number the overlay's root has: the upper one, else the
// first of the lower ones.
func topLayer(l *mountLine) string {
	opts := l.rest[bytes.LastIndexByte(l.rest, ' ')+1:]
	var lower string
	for opt := range bytes.SplitSeq(opts, []byte{','}) {
		name, value, _ := bytes.Cut(opt, []byte{'='})
		switch string(name) {
		case "upperdir":
			return procfs.Unescape(value)
		case "lowerdir", "lowerdir+":
			if lower == "" {
				lower, _, _ = strings.Cut(procfs.Unescape(value), ":")
			}
		}
	}
	return lower
}

var overlayType = []byte(" - overlay ")

// addOverlay remembers one overlay file system once.
func (m *Answer) addOverlay(v *view, l *mountLine) {
	if _, ok := m.overlays[string(l.dev)]; !ok {
		m.overlays[string(l.dev)] = overlayMount{v, procfs.Unescape(l.target), topLayer(l)}
	}
}

// mostPods bounds a directory of pods; a node runs some hundred.
const mostPods = 1_000_000

// mostLayerDirs bounds the directories that are looked into for layers in one scan.
const mostLayerDirs = 50_000

// layers looks for the overlays whose topmost layer lies in a wanted pod. One whose text leads to
// that layer is known to be elsewhere, and one that was not found is not looked for again: a
// layer stays where it is while it is one.
func (s *scan) layers(ctx context.Context, m *Answer, w parsers.PodSet) {
	sought, keys := map[uint64]overlayMount{}, map[uint64]string{}
	for dev, o := range m.overlays {
		handle, err := s.at(o.view, o.target)
		if err != nil {
			continue // nobody sees it any more, or it is mounted over
		}
		st, err := beneath.Stat(handle)
		beneath.Close(handle)
		if err != nil {
			continue
		}
		key := fmt.Sprintf("%s %d %s", dev, st.Ino, o.top)
		if _, ok := s.outside.Load(key); ok {
			continue
		}
		if leadsTo(o.top, st.Ino) {
			s.outside.Store(key, true)
			continue
		}
		sought[st.Ino], keys[st.Ino] = o, key
	}
	if len(sought) == 0 {
		return
	}
	f := layerSearch{scan: s, ctx: ctx, m: m, sought: sought, found: map[uint64]bool{}, left: mostLayerDirs}
	for _, dir := range [...]string{s.RootDir + "/pods", s.QuarantineDir} {
		f.pods(dir, w)
	}
	for ino, key := range keys {
		if !f.found[ino] && f.left > 0 && len(m.Unsure) == 0 {
			s.outside.Store(key, true)
		}
	}
}

// leadsTo reports whether a path of ours has the inode number. What is a layer is cached, and
// so are the directories that lead to it: no file system is asked.
func leadsTo(top string, ino uint64) bool {
	if !strings.HasPrefix(top, "/") {
		return false
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | resolveCached,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, top, &how)
	if err != nil {
		return false
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	return err == nil && st.Ino == ino
}

type layerSearch struct {
	*scan
	ctx    context.Context //nolint:containedctx // of one scan
	m      *Answer
	sought map[uint64]overlayMount
	found  map[uint64]bool
	left   int
}

// pods looks through those directories of one parent that belong to a wanted pod of which no
// mount is known.
func (f *layerSearch) pods(parent string, w parsers.PodSet) {
	dir, err := beneath.Retry(func() (int, error) { return unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return // the look says so
	}
	defer beneath.Close(dir)
	names, err := beneath.List(dir, mostPods)
	if err != nil {
		return
	}
	for _, d := range names {
		uid, ok := w.Component([]byte(d.Name))
		if _, mounted := f.m.Pods[uid]; !ok || mounted {
			continue
		}
		if err := f.dir(dir, d.Name, uid); err != nil {
			f.m.Unsure[uid] = "an overlay may have a layer in it: " + err.Error()
		}
	}
}

var errLayers = errors.New("too many directories to look for it")

func (f *layerSearch) dir(parent int, name string, uid parsers.PodUID) error {
	if f.left--; f.left < 0 || f.ctx.Err() != nil {
		return errLayers
	}
	fd, err := f.Open.Dir(parent, name)
	switch {
	case beneath.Gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil // what is mounted there is another mount's matter
	case err != nil:
		return err
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	if err != nil {
		return err
	}
	if o, ok := f.sought[st.Ino]; ok && f.sameFileSystem(o, fd) {
		f.m.Pods[uid] = Hit{Target: o.target, view: o.view, root: "/", fsType: "overlay", procDir: f.m.procDir}
		f.found[st.Ino] = true
		return nil
	}
	entries, err := beneath.List(fd, mostLayerDirs)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
			continue
		}
		if err := f.dir(fd, d.Name, uid); err != nil {
			return err
		}
		if _, ok := f.m.Pods[uid]; ok {
			return nil
		}
	}
	return nil
}

// sameFileSystem tells apart two file systems that have a directory of one number each: an
// overlay has the size of its topmost layer's. Where that cannot be asked it may be the same.
func (f *layerSearch) sameFileSystem(o overlayMount, fd int) bool {
	handle, err := f.at(o.view, o.target)
	if err != nil {
		return true
	}
	var b unix.Statfs_t
	if err := unix.Fstatfs(fd, &b); err != nil {
		beneath.Close(handle)
		return true
	}
	same, err := bounded.Within(f.ctx, f.Guard, "overlay", f.Guard.Limit()/8, func() bool {
		defer beneath.Close(handle)
		var a unix.Statfs_t
		return unix.Fstatfs(handle, &a) != nil || a.Blocks == b.Blocks && a.Bsize == b.Bsize && a.Files == b.Files
	})
	if errors.Is(err, bounded.ErrStuck) {
		beneath.Close(handle) // work has not begun
	}
	return err != nil || same
}
