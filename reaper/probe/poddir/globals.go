package poddir

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Global is a path at which a volume is staged for all pods of the node.
type Global struct {
	Path    string // below the plugins directory
	Volume  reading.CSIVolume
	Since   time.Time
	Mounted *PluginMount     // what is mounted there in this mount namespace
	Users   []parsers.PodUID // pods that have the volume, or for which a block volume is published
	Unclear string           // why the volume is unknown
}

// PluginMount has device and root of a mount below the plugins directory, as in mountinfo.
type PluginMount struct{ Dev, Root string }

const (
	mostGlobals     = 1000 // a node attaches some hundred volumes
	mostGlobalNames = 10_000
	mostGlobalData  = 64 << 10 // the kubelet writes some 200 bytes of each
	longestHandle   = 4 << 10  // CSI has handles of 128 bytes
)

// globals collects the staged volumes.
type globals struct {
	found  []Global
	names  int                    // how many more may be listed
	mounts map[string]PluginMount // by path below the plugins directory
	paths  []string               // of mounts, sorted
	err    error                  // the first: there may be more volumes
}

// Globals lists the paths at which volumes are staged: of CSI in the layouts since 1.24 and before, of CSI's block volumes,
// whose entries b has, and the mounts below mounts/ of in-tree plugins. mounts returns the mounts below the plugins
// directory, by path. With an error it returns what was read.
func (r *Reader) Globals(ctx context.Context, d *Dirs, b *Blocks, mounts func() (map[string]PluginMount, error)) ([]Global, error) {
	g, err := bounded.On(ctx, r.Guard, "global mounts", d.Root, func(fd int) *globals {
		g := &globals{names: mostGlobalNames, err: b.Err}
		dir, err := r.Open.At(fd).Walk("plugins", "kubernetes.io")
		g.fail("plugins/kubernetes.io", err)
		defer dir.Close()
		if err != nil {
			return g
		}
		g.mounts, err = mounts()
		g.fail("mountinfo", err)
		g.paths = slices.Sorted(maps.Keys(g.mounts))
		if csi, err := dir.Walk("csi"); err == nil {
			g.csi(csi, b)
			csi.Close()
		} else {
			g.fail(CSIDir, err)
		}
		g.inTree()
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

// dirs calls do for each directory in parent. dir is nil for a mount point.
func (g *globals) dirs(parent *beneath.Dir, path string, do func(dir *beneath.Dir, name, path string)) {
	entries, err := beneath.List(parent.FD(), g.names)
	g.fail(path, err)
	g.names -= len(entries)
	slices.SortFunc(entries, func(a, b beneath.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		at, err := parent.Step(e.Name)
		switch {
		case err == nil, errors.Is(err, unix.EXDEV):
			do(at, e.Name, path+"/"+e.Name)
			at.Close()
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		default:
			g.fail(path+"/"+e.Name, err)
		}
	}
}

var errMount = errors.New("it is a mount point")

// csi reads DRIVER/HASH/globalmount, and pv/PV/globalmount of kubelets before 1.24.
func (g *globals) csi(dir *beneath.Dir, b *Blocks) {
	g.dirs(dir, CSIDir, func(driver *beneath.Dir, name, path string) {
		switch {
		case driver == nil:
			g.fail(path, errMount)
		case name == "volumeDevices":
			g.blocks(driver, path, b)
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
				g.add(v, v.Path)
			})
		}
	})
}

// blocks reads the block volumes in staging/, and those with an entry for a pod.
func (g *globals) blocks(dir *beneath.Dir, path string, b *Blocks) {
	at := map[string]string{}
	for volume := range b.Users {
		at[volume] = path + "/publish/" + volume
	}
	if staging, err := dir.Step("staging"); err == nil {
		g.dirs(staging, path+"/staging", func(_ *beneath.Dir, volume, path string) { at[volume] = path })
		staging.Close()
	} else {
		g.fail(path+"/staging", err)
	}
	for _, volume := range slices.Sorted(maps.Keys(at)) {
		v := Global{Path: at[volume]}
		for _, u := range b.Users[volume] {
			v.Users = append(v.Users, u.UID)
		}
		if data, err := dir.Walk(volume, "data"); err == nil {
			v.data(data)
			data.Close()
		} else {
			v.Unclear = err.Error()
		}
		g.add(v, path+"/staging/"+volume, path+"/publish/"+volume, path+"/"+volume+"/dev")
	}
}

// inTree adds the mounts below mounts/ of in-tree plugins.
func (g *globals) inTree() {
	last := "/"
	for _, path := range g.paths {
		parts := strings.SplitN(path, "/", 4)
		if len(parts) < 4 || parts[0] != "kubernetes.io" || parts[1] == "csi" || parts[2] != "mounts" || strings.HasPrefix(path, last+"/") {
			continue
		}
		last = path
		g.add(Global{Path: path, Volume: reading.CSIVolume{Driver: parts[0] + "/" + parts[1], Handle: parts[3]}}, path)
	}
}

// add adds a volume, with the first mount at or below one of the paths.
func (g *globals) add(v Global, at ...string) {
	if len(g.found) >= mostGlobals {
		g.fail(v.Path, beneath.ErrTooMany)
		return
	}
	for _, on := range g.paths {
		m := g.mounts[on]
		if slices.ContainsFunc(at, func(path string) bool { return on == path || strings.HasPrefix(on, path+"/") }) {
			v.Mounted = &m
			break
		}
	}
	g.found = append(g.found, v)
}

// data sets the volume from the vol_data.json in dir.
func (v *Global) data(dir *beneath.Dir) {
	st, err := dir.StatName(contents.VolData)
	if err != nil {
		st, _ = dir.Stat() // without it Since is zero
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

// AddUsers adds to each volume the pods whose directories have it, by vol_data.json. It returns why a user may be missing, ""
// if none is.
func (r *Reader) AddUsers(ctx context.Context, d *Dirs, all []Global) (doubt string) {
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
