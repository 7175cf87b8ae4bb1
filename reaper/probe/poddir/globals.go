package poddir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

const (
	mostGlobals    = 1000     // a node attaches some hundred volumes
	mostGlobalData = 64 << 10 // the kubelet writes some 200 bytes of each
)

// stagedVolume is a path below plugins/ at which a CSI volume is mounted for all pods of the node.
type stagedVolume struct {
	path   string
	volume reading.CSIVolume
	err    error // why the volume is not known
}

// Unnamed returns the CSI volumes that are mounted for all pods of the node since before the given time, and that no
// pod directory names in a vol_data.json. mounted has the mount points below plugins/. An error means that not all
// could be read.
func (r *Reader) Unnamed(ctx context.Context, d *Dirs, mounted map[string]bool, before time.Time) ([]reading.CSIVolume, error) {
	all, err := bounded.On(ctx, r.Guard, "staged volumes", d.Root, func(fd int) answerOf[[]stagedVolume] {
		found, err := stagedVolumes(r.Open.At(fd), mounted, before)
		return answerOf[[]stagedVolume]{found, err}
	})
	if err = errors.Join(err, all.err); err != nil || len(all.value) == 0 {
		return nil, err
	}
	names, open := d.Names, r.Open
	named, err := bounded.On(ctx, r.Guard, "volumes of pods", d.Pods, func(pods int) answerOf[namedVolumes] {
		n := namedVolumes{paths: map[string]bool{}, volumes: map[reading.CSIVolume]bool{}}
		for _, e := range names {
			uid, ok := parsers.ParsePodUID(e.Name)
			if !ok || ctx.Err() != nil {
				continue
			}
			err := eachVolume(open.At(pods), uid, func(_ *beneath.Dir, v volData) { n.add(v) })
			if err != nil {
				return answerOf[namedVolumes]{err: fmt.Errorf("cannot read the volumes of pod %s: %w", e.Name, err)}
			}
		}
		return answerOf[namedVolumes]{n, ctx.Err()}
	})
	if err = errors.Join(err, named.err); err != nil {
		return nil, err
	}
	var unnamed []reading.CSIVolume
	for _, v := range all.value {
		switch {
		case named.value.paths[v.path] || named.value.volumes[v.volume]:
		case v.err != nil:
			return nil, v.err
		default:
			unnamed = append(unnamed, v.volume)
		}
	}
	return unnamed, nil
}

// answerOf is a value or an error, for a call that is bounded.
type answerOf[T any] struct {
	value T
	err   error
}

// namedVolumes are the volumes of all pod directories, and their staging paths.
type namedVolumes struct {
	paths   map[string]bool
	volumes map[reading.CSIVolume]bool
}

func (n namedVolumes) add(v volData) {
	n.volumes[v.volume()] = true
	for _, at := range v.globalMounts() {
		n.paths[at.path()] = true
	}
}

// stagedVolumes lists the mounted directories plugins/kubernetes.io/csi/DRIVER/HASH/globalmount, before 1.24
// csi/pv/PV/globalmount.
func stagedVolumes(root *beneath.Dir, mounted map[string]bool, before time.Time) (found []stagedVolume, err error) {
	csi, err := root.Walk(append([]string{"plugins"}, strings.Split(CSIDir, "/")...)...)
	if err != nil {
		if beneath.Gone(err) {
			err = nil
		}
		return nil, err
	}
	defer csi.Close()
	drivers, err := subdirs(csi)
	for _, driver := range drivers {
		in, e := csi.Step(driver)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		volumes, e := subdirs(in)
		err = errors.Join(err, e)
		for _, name := range volumes {
			path := CSIDir + "/" + driver + "/" + name + "/globalmount"
			if len(found) == mostGlobals {
				in.Close()
				return found, beneath.ErrTooMany
			}
			if !mounted[path] {
				continue
			}
			v, written := readStaged(in, name)
			if v.path = path; written.Before(before) {
				found = append(found, v)
			}
		}
		in.Close()
	}
	return found, err
}

// subdirs returns the names of the directories in dir, sorted.
func subdirs(dir *beneath.Dir) (names []string, err error) {
	entries, err := beneath.List(dir.FD(), mostGlobals)
	for _, e := range entries {
		at, e2 := dir.Step(e.Name)
		switch {
		case e2 == nil:
			names = append(names, e.Name)
			at.Close()
		case errors.Is(e2, unix.ENOTDIR), errors.Is(e2, unix.ELOOP), beneath.Gone(e2):
		default:
			err = errors.Join(err, e2)
		}
	}
	slices.Sort(names)
	return names, err
}

// readStaged reads the vol_data.json of a staged volume, and when it was written: zero if that is not known.
func readStaged(driver *beneath.Dir, name string) (v stagedVolume, written time.Time) {
	dir, err := driver.Step(name)
	if err != nil {
		return stagedVolume{err: err}, written
	}
	defer dir.Close()
	if st, err := dir.StatName(contents.VolData); err == nil && st.Mask&unix.STATX_MTIME != 0 {
		written = time.Unix(0, beneath.Nanos(st.Mtime))
	}
	data, err := readVolData(dir, mostGlobalData)
	return stagedVolume{volume: data.volume(), err: err}, written
}
