package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The bounds of one pod's walk. What lies beyond them is told as Partial where its class
// is certain, and makes the content unknown where it is not.
const (
	mostEntries = 10_000
	deepest     = 24 // also bounds the open directories of one walk
	mostRows    = 200
	mostVolData = 1 << 20
)

// volume is one directory below volumes/.
type volume struct {
	plugin string // as the kubelet writes it: kubernetes.io~csi
	name   string
	path   string
}

// content is what the walk of one pod directory found.
type content struct {
	rows    []policy.Residue
	byKey   map[rowKey]int
	volumes []volume
	volData map[string]string
	// badData holds by path why a vol_data.json could not be read.
	badData map[string]error
	hosts   []byte // etc-hosts, when it was asked for
	mount   string // the first mount point that was met
	err     error
}

type rowKey struct {
	path  string
	class policy.Class
}

// walker reads one pod directory.
type walker struct {
	*content
	open  opener
	ended func() error // the context's: why to stop, or nil
	buf   []byte
	dev   uint64
	mount uint64
	left  int
	hosts bool
}

// errSubvolume: a btrfs subvolume is no mount and may be anybody's; it is not entered.
var errSubvolume = errors.New("another device without a mount: a subvolume")

// bounds are what one walk may take: scratch for listings, so many entries, and whether
// etc-hosts is read.
type bounds struct {
	buf     []byte
	entries int
	hosts   bool
}

// readContent walks the pod directory that fd holds and classes what it finds. It opens
// directories, vol_data.json and etc-hosts, nothing else.
func readContent(ctx context.Context, o opener, fd int, st *unix.Statx_t, b bounds) *content {
	c := &content{byKey: map[rowKey]int{}}
	w := walker{content: c, open: o, ended: ctx.Err, buf: b.buf, dev: devOf(st), mount: st.Mnt_id, left: b.entries, hosts: b.hosts}
	c.add(".", policy.ClassSkeleton, blocksOf(st), 1)
	w.mixed(fd, nil)
	slices.SortFunc(c.rows, func(a, b policy.Residue) int { return strings.Compare(a.Path, b.Path) })
	return c
}

// mixed reads a directory whose entries are each of their own class.
func (w *walker) mixed(fd int, rel []string) {
	entries, err := w.list(fd)
	if err != nil {
		w.fail(rel, err)
		return
	}
	for _, d := range entries {
		if err := w.ended(); err != nil {
			w.fail(rel, err)
			return
		}
		w.entry(fd, append(slices.Clip(rel), d.name), d)
	}
}

func (w *walker) entry(parent int, rel []string, d dirent) {
	fd, st, err := w.enter(parent, d)
	switch {
	case errors.Is(err, errMount):
		w.crossed(rel)
		return
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		w.file(parent, rel, d)
		return
	case err != nil:
		w.fail(rel, err)
		return
	}
	defer closeFD(fd)
	if len(rel) == 3 && rel[0] == "volumes" {
		w.volumes = append(w.volumes, volume{plugin: rel[1], name: rel[2], path: clean(strings.Join(rel, "/"))})
	}
	if class, ok := policy.ClassOfTree(rel); ok {
		w.uniform(fd, rel, class, &st)
		return
	}
	w.add(top(rel, true), policy.ClassSkeleton, blocksOf(&st), 1)
	w.mixed(fd, rel)
}

// enter opens one entry where it is or may be a directory: ENOTDIR for what the listing
// says is none, without touching it.
func (w *walker) enter(parent int, d dirent) (int, unix.Statx_t, error) {
	var st unix.Statx_t
	if d.kind != unix.DT_DIR && d.kind != unix.DT_UNKNOWN {
		return -1, st, unix.ENOTDIR
	}
	fd, err := w.open.dir(parent, d.name)
	if err != nil {
		return -1, st, err
	}
	st, err = statHandle(fd)
	if err == nil && devOf(&st) != w.dev {
		err = errSubvolume
	}
	if err != nil {
		closeFD(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// file classes what is no directory. A mount point among the files shows by the mount ID
// that statx has given since Linux 5.8; before, mountinfo alone tells.
func (w *walker) file(parent int, rel []string, d dirent) {
	st, err := statName(parent, d.name)
	if err != nil {
		w.fail(rel, err)
		return
	}
	if w.foreign(&st) {
		w.crossed(rel)
		return
	}
	kind := entryType(st.Mode)
	class := policy.ClassOf(rel, kind, int64(min(st.Size, 1<<62)))
	path := clean(strings.Join(rel, "/"))
	if class == policy.ClassSkeleton {
		w.add(top(rel, false), class, blocksOf(&st), 1)
	} else {
		w.add(path, class, blocksOf(&st), 1)
	}
	switch {
	case len(rel) == 4 && rel[0] == "volumes" && rel[3] == policy.VolData:
		w.keepVolData(parent, path)
	case w.hosts && len(rel) == 1 && d.name == "etc-hosts":
		if text, err := w.open.readFile(parent, d.name, 64<<10); err == nil {
			w.content.hosts = text
		}
	}
}

func (w *walker) foreign(st *unix.Statx_t) bool {
	return st.Mask&unix.STATX_MNT_ID != 0 && w.mount != 0 && st.Mnt_id != w.mount
}

// keepVolData keeps the file's content: it names the volume that may still be staged, and
// the record must hold it once the file is gone.
func (w *walker) keepVolData(parent int, path string) {
	text, err := w.open.readFile(parent, policy.VolData, mostVolData)
	if err != nil {
		if w.badData == nil {
			w.badData = map[string]error{}
		}
		w.badData[path] = err
		return
	}
	if w.volData == nil {
		w.volData = map[string]string{}
	}
	w.volData[path] = string(text)
}

// list takes what it lists off the pod's budget.
func (w *walker) list(fd int) ([]dirent, error) {
	var out []dirent
	err := readNames(fd, w.buf, func(d dirent) bool {
		if w.left == 0 {
			return false
		}
		w.left--
		out = append(out, d)
		return true
	})
	return out, err
}

// add counts into the row of path and class; beyond mostRows into a row of the first
// component, so that no tree makes an endless report.
func (c *content) add(path string, class policy.Class, bytes, entries int64) int {
	k := rowKey{path, class}
	i, ok := c.byKey[k]
	if !ok && len(c.rows) >= mostRows {
		first, _, _ := strings.Cut(path, "/")
		k.path = strings.Trim(first, `"`) + "/..."
		i, ok = c.byKey[k]
	}
	if !ok {
		i = len(c.rows)
		c.rows = append(c.rows, policy.Residue{Path: k.path, Class: class})
		c.byKey[k] = i
	}
	c.rows[i].Bytes += bytes
	c.rows[i].Entries += entries
	return i
}

func (c *content) crossed(rel []string) {
	if c.mount == "" {
		c.mount = clean(strings.Join(rel, "/"))
	}
}

// fail keeps the first error; what vanished meanwhile is no error.
func (c *content) fail(rel []string, err error) {
	if c.err == nil && !gone(err) {
		c.err = fmt.Errorf("cannot read %s: %w", clean(strings.Join(append([]string{"."}, rel...), "/")), err)
	}
}

// top is the row of something that holds no data: one for each volume, one for each other
// entry of the pod directory, and one for the directories that lead there.
func top(rel []string, dir bool) string {
	depth := 1
	switch rel[0] {
	case "volumes":
		depth = 3
	case "volume-subpaths":
		depth = 2
	}
	if dir && len(rel) < depth {
		return "."
	}
	return clean(strings.Join(rel[:min(depth, len(rel))], "/"))
}

func blocksOf(st *unix.Statx_t) int64 { return int64(min(st.Blocks, 1<<53)) * 512 }

func entryType(mode uint16) policy.EntryType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return policy.TypeRegular
	case unix.S_IFLNK:
		return policy.TypeSymlink
	case unix.S_IFDIR:
		return policy.TypeDirectory
	}
	return policy.TypeOther
}
