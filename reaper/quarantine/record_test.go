package quarantine

import (
	"maps"
	"os"
	"path"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// half is what a change does to one name: it is this inode's then, or nobody's if it is 0.
type half struct {
	dir  uint64
	name string
	ino  uint64
}

// event is a change, or the sync of a directory.
type event struct {
	halves   []half
	exchange bool
	sync     uint64
}

// recorder records the changes.
type recorder struct {
	disk
	t      *testing.T
	events []event
	made   map[uint64]bool // directories that were made
}

func (r *recorder) dir(d *fdpath.Dir) uint64 {
	id, err := d.ID()
	testkit.Must(r.t, err)
	return id.Ino
}

func ino(d *fdpath.Dir, name string) uint64 {
	st, err := d.StatName(name)
	if err != nil {
		return 0
	}
	return st.Ino
}

func (r *recorder) change(err error, halves ...half) error {
	if err == nil {
		r.events = append(r.events, event{halves: halves})
	}
	return err
}

func (r *recorder) mkdir(parent *fdpath.Dir, name string) error {
	err := r.disk.mkdir(parent, name)
	r.made[ino(parent, name)] = true
	return r.change(err, half{r.dir(parent), name, ino(parent, name)})
}

func (r *recorder) create(dir *fdpath.Dir, name string, text []byte) error {
	err := r.disk.create(dir, name, text)
	return r.change(err, half{r.dir(dir), name, ino(dir, name)})
}

func (r *recorder) unlink(dir *fdpath.Dir, name string) error {
	return r.change(r.disk.unlink(dir, name), half{r.dir(dir), name, 0})
}

func (r *recorder) rmdir(dir *fdpath.Dir, name string) error {
	return r.change(r.disk.rmdir(dir, name), half{r.dir(dir), name, 0})
}

func (r *recorder) rename(from *fdpath.Dir, name string, to *fdpath.Dir, as string, flags uint) error {
	moved, other := ino(from, name), ino(to, as)
	err := r.change(r.disk.rename(from, name, to, as, flags), half{r.dir(to), as, moved}, half{r.dir(from), name, other})
	if err == nil {
		r.events[len(r.events)-1].exchange = flags&unix.RENAME_EXCHANGE != 0
	}
	return err
}

func (r *recorder) sync(dir *fdpath.Dir) error {
	err := r.disk.sync(dir)
	if err == nil {
		r.events = append(r.events, event{sync: r.dir(dir)})
	}
	return err
}

// names are the names of all directories, by inode.
type names map[uint64]map[string]uint64

// readNames returns the names below path, and their directories.
func readNames(t *testing.T, path string) (names, uint64) {
	t.Helper()
	all := names{}
	var read func(path string) uint64
	read = func(path string) uint64 {
		id := idAt(t, path).Ino
		info, err := os.Lstat(path)
		testkit.Must(t, err)
		if info.IsDir() {
			entries, err := os.ReadDir(path)
			testkit.Must(t, err)
			all[id] = map[string]uint64{}
			for _, e := range entries {
				all[id][e.Name()] = read(path + "/" + e.Name())
			}
		}
		return id
	}
	return all, read(path)
}

// paths returns the inode of each path below the directory root.
func (n names) paths(root uint64) map[string]uint64 {
	out := map[string]uint64{}
	var walk func(dir uint64, at string)
	walk = func(dir uint64, at string) {
		for name, ino := range n[dir] {
			p := path.Join(at, name)
			out[p] = ino
			walk(ino, p)
		}
	}
	walk(root, "")
	return out
}

// afterPowerCut returns the names after the power was cut after the first events. lost decides about a change that may be
// lost.
func (n names) afterPowerCut(events []event, lost func() bool) names {
	out := names{}
	for dir, in := range n {
		out[dir] = maps.Clone(in)
	}
	for i, e := range events {
		synced := func(dir uint64) bool {
			return slices.ContainsFunc(events[i:], func(s event) bool { return s.sync == dir && s.halves == nil })
		}
		none := !slices.ContainsFunc(e.halves, func(h half) bool { return synced(h.dir) })
		if none && len(e.halves) > 0 && lost() {
			continue
		}
		for _, h := range e.halves {
			switch {
			case !none && !e.exchange && !synced(h.dir) && lost():
			case h.ino == 0:
				delete(out[h.dir], h.name)
			default:
				if out[h.dir] == nil {
					out[h.dir] = map[string]uint64{}
				}
				out[h.dir][h.name] = h.ino
			}
		}
	}
	return out
}
