package poddir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// Global is a place at which a volume is staged for all pods of the node.
type Global struct {
	Path    string // below the plugins directory
	Volume  reading.CSIVolume
	Since   time.Time
	Mounted bool             // it is a mount point here
	MountID uint64           // of mountinfo(5), 0 where it is not known
	Users   []parsers.PodUID // whose volumes have it, or for which a block volume is published
	Unclear string           // why it is not known whose volume it is
}

// A node attaches some hundred volumes. The kubelet writes some 200 bytes of each, and CSI has handles of 128 bytes.
const (
	mostGlobals     = 1000
	mostGlobalNames = 10_000
	mostGlobalData  = 64 << 10
	longestHandle   = 4 << 10
	deepestInTree   = 4 // mounts/aws/REGION/VOLUME
)

// globals are the places that were found. Names counts down what may still be listed.
type globals struct {
	found []Global
	names int
	err   error // the first: there may be more places
}

// Globals lists the places at which volumes are staged: of CSI in the layouts since 1.24 and before, of CSI's block volumes,
// and what is mounted below mounts/ of the plugins of the kubelet's own tree. With an error it lists what was read.
func (r *Reader) Globals(ctx context.Context, d *Dirs) ([]Global, error) {
	g, err := bounded.On(ctx, r.Guard, "global mounts", d.Root, func(fd int) *globals {
		g := &globals{names: mostGlobalNames}
		dir, err := r.Open.At(fd).Walk("plugins", "kubernetes.io")
		g.fail("plugins/kubernetes.io", err)
		defer dir.Close()
		if err == nil {
			g.plugins(dir)
		}
		return g
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the global mounts: %w", err)
	}
	return g.found, g.err
}

// fail keeps the first error.
func (g *globals) fail(path string, err error) {
	if g.err == nil && err != nil && !beneath.Gone(err) {
		g.err = fmt.Errorf("cannot list the global mounts: %w", beneath.PathError("open", path, err))
	}
}

// list returns the names in dir.
func (g *globals) list(dir *beneath.Dir, path string) []string {
	entries, err := beneath.List(dir.FD(), g.names)
	g.fail(path, err)
	g.names -= len(entries)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// dirs gives each directory in parent to do: nil for one that is a mount point.
func (g *globals) dirs(parent *beneath.Dir, path string, do func(dir *beneath.Dir, name, path string)) {
	for _, name := range g.list(parent, path) {
		at, err := parent.Step(name)
		switch {
		case err == nil, errors.Is(err, unix.EXDEV):
			do(at, name, path+"/"+name)
			at.Close()
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		default:
			g.fail(path+"/"+name, err)
		}
	}
}

func (g *globals) plugins(dir *beneath.Dir) {
	g.dirs(dir, "kubernetes.io", func(plugin *beneath.Dir, _, path string) {
		switch {
		case plugin == nil:
			g.fail(path, errMount)
		case path == CSIDir:
			g.csi(plugin)
		default:
			if mounts, err := plugin.Step("mounts"); err == nil {
				g.inTree(mounts, path, path+"/mounts", deepestInTree)
				mounts.Close()
			} else if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
				g.fail(path+"/mounts", err)
			}
		}
	})
}

var errMount = errors.New("it is a mount point")

// csi reads DRIVER/HASH/globalmount, and pv/PV/globalmount of the kubelet before 1.24.
func (g *globals) csi(dir *beneath.Dir) {
	g.dirs(dir, CSIDir, func(driver *beneath.Dir, name, path string) {
		switch {
		case driver == nil:
			g.fail(path, errMount)
		case name == "volumeDevices":
			g.blocks(driver, path)
		default:
			g.dirs(driver, path, func(volume *beneath.Dir, _, path string) {
				if volume == nil {
					g.fail(path, errMount)
					return
				}
				v := Global{Path: path + "/globalmount"}
				if v.data(volume); v.Volume.Driver == "" && name != "pv" {
					v.Volume.Driver = name
				}
				v.mounted(volume, "globalmount")
				g.add(v)
			})
		}
	})
}

// blocks reads staging/SPEC, publish/SPEC/UID, and SPEC/data and SPEC/dev/UID beside them.
func (g *globals) blocks(dir *beneath.Dir, path string) {
	at := map[string]*Global{}
	place := func(spec, path string) *Global {
		if at[spec] == nil {
			at[spec] = &Global{Path: path}
		}
		return at[spec]
	}
	published := func(v *Global, dir *beneath.Dir, path string) {
		for _, name := range g.list(dir, path) {
			v.mounted(dir, name)
			if uid, ok := parsers.ParsePodUID(name); ok {
				v.Users = append(v.Users, uid)
			}
		}
	}
	for _, kind := range [...]string{"staging", "publish"} {
		if specs, err := dir.Step(kind); err == nil {
			g.dirs(specs, path+"/"+kind, func(spec *beneath.Dir, name, path string) {
				v := place(name, path)
				if v.Mounted = v.Mounted || spec == nil; spec != nil {
					published(v, spec, path)
				}
			})
			specs.Close()
		} else {
			g.fail(path+"/"+kind, err)
		}
	}
	for _, spec := range sorted(at) {
		v := at[spec]
		if data, err := dir.Walk(spec, "data"); err == nil {
			v.data(data)
			data.Close()
		} else {
			v.Unclear = err.Error()
		}
		if dev, err := dir.Walk(spec, "dev"); err == nil {
			published(v, dev, path+"/"+spec+"/dev")
			dev.Close()
		}
		g.add(*v)
	}
}

// inTree reads what is mounted below mounts/. What is no mount point may be a directory on the way to one.
func (g *globals) inTree(dir *beneath.Dir, plugin, path string, depth int) {
	g.dirs(dir, path, func(below *beneath.Dir, name, path string) {
		if below != nil && depth > 1 {
			g.inTree(below, plugin, path, depth-1)
		}
		if below == nil {
			v := Global{Path: path, Volume: reading.CSIVolume{Driver: plugin, Handle: path[len(plugin)+len("/mounts/"):]}}
			v.mounted(dir, name)
			g.add(v)
		}
	})
}

func (g *globals) add(v Global) {
	if len(g.found) >= mostGlobals {
		g.fail(v.Path, beneath.ErrTooMany)
		return
	}
	g.found = append(g.found, v)
}

// data reads the volume from the vol_data.json in dir.
func (v *Global) data(dir *beneath.Dir) {
	st, err := dir.StatName(contents.VolData)
	if err != nil {
		st, _ = dir.Stat() // without a time, none is shown
	}
	if st.Mask&unix.STATX_MTIME != 0 {
		v.Since = time.Unix(0, beneath.Nanos(st.Mtime))
	}
	data, err := readVolData(dir, mostGlobalData)
	if len(data.VolumeHandle) > longestHandle || len(data.DriverName) > longestHandle {
		err = errNoVolume
	}
	if err != nil {
		v.Unclear = err.Error()
		return
	}
	v.Volume = data.volume()
}

// mounted reads whether name is a mount point, by the open itself. What is mounted there is not asked.
func (v *Global) mounted(parent *beneath.Dir, name string) {
	if !mountPoint(parent, name) {
		return
	}
	v.Mounted = true
	if st, err := parent.StatName(name); err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		v.MountID = st.Mnt_id
	}
}

// Want adds to each volume of all the pods whose directories have it, by vol_data.json. It returns why some pod may have one
// that it did not add, "" where none can.
func (r *Reader) Want(ctx context.Context, d *Dirs, all []Global) (doubt string) {
	byPath, byVolume := map[string]int{}, map[reading.CSIVolume]int{}
	for i, v := range all {
		byPath[v.Path], byVolume[v.Volume] = i, i
	}
	delete(byVolume, reading.CSIVolume{})
	type answer struct {
		users map[int][]parsers.PodUID
		doubt string
	}
	names, open := d.Names, r.Open
	a, err := bounded.On(ctx, r.Guard, "volumes of pods", d.Pods, func(pods int) answer {
		a := answer{users: map[int][]parsers.PodUID{}}
		for _, e := range names {
			uid, ok := parsers.ParsePodUID(e.Name)
			if !ok || ctx.Err() != nil {
				continue
			}
			why := eachVolume(open.At(pods), uid, func(_ *beneath.Dir, v volData) {
				i, known := byVolume[v.volume()]
				for _, at := range v.globalMounts() {
					if n, ok := byPath[at.path()]; ok && !known {
						i, known = n, true
					}
				}
				if known {
					a.users[i] = append(a.users[i], uid)
				}
			})
			if why != nil && a.doubt == "" {
				a.doubt = "cannot read the volumes of pod " + e.Name + ": " + why.Error()
			}
		}
		return a
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "cannot read the volumes of the pods: " + err.Error()
	}
	for i, users := range a.users {
		all[i].Users = append(all[i].Users, users...)
	}
	return a.doubt
}
