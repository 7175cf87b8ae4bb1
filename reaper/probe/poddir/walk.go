package poddir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// A pod's directory has a skeleton that the kubelet makes, at most four levels deep, and below it trees
// of one class each, such as volumes. The skeleton must be read completely, since it shows which volumes
// there are. The class of a tree follows from its path. So trees are counted only for the report, and one
// beyond the limits is Partial. mountinfo shows the mounts below a tree; a walk also reports the first that
// it meets, and a removal stops at each.
const (
	mostEntries  = 10_000    // of one directory of the skeleton, and counted of one tree
	mostSkeleton = 50_000    // entries of the skeleton of one pod
	mostCounted  = 1_000_000 // entries of all trees of one look
	deepest      = 24        // also bounds the open directories of one walk
	mostRows     = 200
	mostVolData  = 1 << 20 // bytes of one vol_data.json; the kubelet writes some 500
	mostVolDatas = 8 << 20 // bytes of those of one pod
)

// walker reads one pod directory.
type walker struct {
	*Content
	bounds
	ended func() error // the error of the context
	dev   uint64
	mount uint64
	left  int // of mostSkeleton
	*scratch
	// ephemeral reports that the CSI volume that is being read lives as long as its pod.
	ephemeral bool
}

// errSubvolume is for a btrfs subvolume, which is not a mount. It is not entered.
var errSubvolume = errors.New("another device without a mount: a subvolume")

// bounds are the limits of one walk.
type bounds struct {
	each   int // entries of one directory of the skeleton, and of one tree
	counts *counting
	until  time.Time // when counting ends, so that the skeleton has the rest
	end    time.Time // when the walk ends
	etc    bool      // read etc-hosts
	origin string    // the directory, for messages
}

// counting is the limit of entries and time for counting trees in one look.
type counting struct {
	left  atomic.Int64
	ended func() error
}

func newCounting(ctx context.Context) *counting {
	c := &counting{ended: ctx.Err}
	c.left.Store(mostCounted)
	return c
}

// late reports whether the time for counting is over, for the pod or the look.
func (w *walker) late() bool {
	return w.counts.ended() != nil || time.Now().After(w.until)
}

// room returns how many more entries may be counted.
func (w *walker) room() int {
	if w.late() {
		return 0
	}
	return int(max(0, w.counts.left.Load()))
}

// readContent walks a pod directory and classifies what it finds. It opens only directories,
// vol_data.json, etc-hosts and userns.
func readContent(ctx context.Context, dir *beneath.Dir, st *unix.Statx_t, b bounds) *Content {
	s, ok := scratches.Get().(*scratch)
	if !ok {
		s = newScratch()
	}
	defer scratches.Put(s)
	return s.readContent(ctx, dir, st, b)
}

func (s *scratch) readContent(ctx context.Context, dir *beneath.Dir, st *unix.Statx_t, b bounds) *Content {
	clear(s.byKey)
	c := &Content{byKey: s.byKey, Rows: s.rows[:0], Inodes: s.inodes[:0]}
	w := walker{Content: c, bounds: b, ended: ctx.Err, dev: beneath.DevOf(st), mount: st.Mnt_id, left: mostSkeleton, scratch: s}
	c.addInode(st)
	c.add(here, contents.ClassSkeleton, blocksOf(st), 1)
	w.skeleton(dir, s.rel[:0])
	s.rows, s.inodes = c.Rows, c.Inodes
	c.Rows, c.Inodes, c.byKey = slices.Clone(c.Rows), slices.Clone(c.Inodes), nil
	slices.SortFunc(c.Rows, func(a, b policy.Residue) int { return strings.Compare(a.Path, b.Path) })
	return c
}

// skeleton reads a directory of the skeleton, in which each entry has its own class.
func (w *walker) skeleton(dir *beneath.Dir, rel []string) {
	defer w.forget(len(w.entries))
	entries, err := w.list(dir, min(w.each, w.left))
	w.left -= len(entries)
	if errors.Is(err, beneath.ErrTooMany) {
		w.cut(rel, len(entries))
	} else if err != nil {
		w.unread(rel, err)
		return
	}
	switch {
	case len(rel) == 0:
		first(entries, "volumes") // before other entries use up the limits
	case contents.IsCSIVolume(rel):
		w.ephemeral = false
		first(entries, contents.VolData) // it sets ephemeral
	}
	for _, d := range entries {
		if err := w.stop(); err != nil {
			w.unread(rel, err)
			return
		}
		w.entry(dir, append(rel, d.Name), d, nil)
	}
}

// stop returns why the walk has to end.
func (w *walker) stop() error {
	err := w.ended()
	if errors.Is(err, context.DeadlineExceeded) || err == nil && time.Now().After(w.end) {
		return errSlow
	}
	return err
}

// first moves the entry of that name, if there is one, to the front.
func first(entries []beneath.Entry, name string) {
	if i := slices.IndexFunc(entries, func(d beneath.Entry) bool { return d.Name == name }); i > 0 {
		entries[0], entries[i] = entries[i], entries[0]
	}
}

var errSlow = errors.New("the disk is too slow: there was no time left for it")

// cut records a directory of the skeleton with too many entries. That is a doubt only for the pod
// directory and volumes, since all volumes must be known. The removal checks each entry itself, and
// containers/NAME gets a file at each restart of the container.
func (w *walker) cut(rel []string, read int) {
	if len(rel) > 0 && rel[0] != "volumes" {
		i := w.add(w.top(rel, true), contents.ClassSkeleton, 0, 0)
		w.Rows[i].Partial = true
		return
	}
	path := clean.Shell(clean.Name(strings.Join(append([]string{w.origin}, rel...), "/")))
	w.unread(rel, fmt.Errorf("it has more than %d entries, and no kubelet makes so many; see what they are: ls -U %s | head", read, path))
}

// entry reads one entry of a tree, or of the skeleton if t is nil.
func (w *walker) entry(parent *beneath.Dir, rel []string, d beneath.Entry, t *tree) {
	dir, st, err := w.enter(parent, d)
	switch {
	case errors.Is(err, unix.EXDEV):
		w.crossed(rel, t)
		return
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		w.file(parent, rel, d, t)
		return
	case err != nil && t == nil:
		w.unread(rel, err)
		return
	case beneath.Gone(err):
		t.Entries--
		return
	case err != nil:
		t.Partial = true
		w.fail(rel, err)
		return
	}
	defer dir.Close()
	if t != nil {
		t.Bytes += blocksOf(&st)
		w.count(dir, rel, t)
		return
	}
	if len(rel) == 3 && rel[0] == "volumes" {
		w.Volumes = append(w.Volumes, Volume{Plugin: rel[1], Name: rel[2]})
	}
	if class, ok := contents.ClassInCSI(rel, w.ephemeral); ok {
		w.tree(dir, rel, class, &st)
		return
	}
	w.add(w.top(rel, true), contents.ClassSkeleton, blocksOf(&st), 1)
	w.skeleton(dir, rel)
}

// enter opens an entry if it is a directory. It does not touch one that is none according to the listing.
func (w *walker) enter(parent *beneath.Dir, d beneath.Entry) (*beneath.Dir, unix.Statx_t, error) {
	var st unix.Statx_t
	if d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
		return nil, st, unix.ENOTDIR
	}
	dir, err := parent.Walk(d.Name)
	if err != nil {
		return nil, st, err
	}
	st, err = dir.Stat()
	if err == nil && beneath.DevOf(&st) != w.dev {
		err = errSubvolume
	}
	if err != nil {
		dir.Close()
		return nil, st, err
	}
	w.addInode(&st)
	return dir, st, nil
}

// file classifies an entry that is not a directory, or counts it. The mount ID of statx(2) shows whether it is a
// mount point (Linux 5.8). Before, only mountinfo does.
func (w *walker) file(parent *beneath.Dir, rel []string, d beneath.Entry, t *tree) {
	if t != nil {
		t.files = true
	}
	st, err := parent.StatName(d.Name)
	if err != nil {
		w.fail(rel, err)
		return
	}
	if st.Mask&unix.STATX_MNT_ID != 0 && w.mount != 0 && st.Mnt_id != w.mount {
		w.crossed(rel, t)
		return
	}
	w.addInode(&st)
	if t != nil {
		t.Bytes += blocksOf(&st)
		return
	}
	kind := beneath.EntryType(st.Mode)
	size := int64(min(st.Size, 1<<62))
	class := contents.ClassOf(rel, kind, size)
	if contents.ByText(rel, kind, size) {
		if text, err := parent.ReadFile(d.Name, contents.BiggestText); err == nil {
			class = contents.ClassOfText(rel, text)
		}
	}
	if class == contents.ClassSkeleton {
		w.add(w.top(rel, false), class, blocksOf(&st), 1)
	} else {
		w.add(w.join(rel), class, blocksOf(&st), 1)
	}
	switch {
	case len(rel) == 4 && contents.IsCSIVolume(rel[:3]) && rel[3] == contents.VolData:
		w.keepVolData(parent, clean.Name(string(w.join(rel))))
	case w.etc && len(rel) == 1 && d.Name == "etc-hosts":
		if text, err := parent.ReadFile(d.Name, 64<<10); err == nil {
			w.PodName = hostsName(text)
		}
	}
}

// keepVolData keeps the file's content: it names the volume, which may still be staged when the file
// is gone.
func (w *walker) keepVolData(parent *beneath.Dir, path string) {
	text, err := parent.ReadFile(contents.VolData, min(mostVolData, mostVolDatas-int64(w.kept)))
	w.kept += len(text)
	if err != nil {
		if w.badData == nil {
			w.badData = map[string]error{}
		}
		w.badData[path] = err
		return
	}
	if w.VolData == nil {
		w.VolData = map[string]string{}
	}
	w.VolData[path] = string(text)
	w.ephemeral = contents.EphemeralCSI(text)
}

// list returns the names of a directory. They are valid until forget. The error is beneath.ErrTooMany if
// there are more than limit.
func (w *walker) list(dir *beneath.Dir, limit int) ([]beneath.Entry, error) {
	from := len(w.entries)
	err := beneath.EachName(dir.FD(), w.buf[:], func(d beneath.Entry) bool {
		if len(w.entries)-from == limit {
			return false
		}
		w.entries = append(w.entries, d)
		return true
	})
	return w.entries[from:], err
}

// forget releases the names after the first ones.
func (w *walker) forget(from int) { w.entries = w.entries[:from] }

// tree counts what lies below a directory of one class.
type tree struct {
	policy.Residue
	files bool
	level int // of its entries, in the pod directory
	left  int // entries that may still be counted
}

// tree counts a tree of one class within the limits. A tree of data or ephemeral class that was read completely and
// has only directories is skeleton.
func (w *walker) tree(dir *beneath.Dir, rel []string, class contents.Class, st *unix.Statx_t) {
	t := tree{Residue: policy.Residue{Entries: 1, Bytes: blocksOf(st)}, level: len(rel) + 1, left: w.each}
	w.count(dir, rel, &t)
	if class != contents.ClassProjected && !t.files && !t.Partial {
		class = contents.ClassSkeleton
	}
	i := w.add(w.join(rel), class, t.Bytes, t.Entries)
	w.Rows[i].Partial = w.Rows[i].Partial || t.Partial
}

// count reads a directory of a tree.
func (w *walker) count(dir *beneath.Dir, rel []string, t *tree) {
	defer w.forget(len(w.entries))
	entries, err := w.list(dir, min(t.left, w.room()))
	t.left -= len(entries)
	w.counts.left.Add(-int64(len(entries)))
	if errors.Is(err, beneath.ErrTooMany) {
		t.Partial = true
	} else if err != nil {
		w.fail(rel, err)
		return
	}
	for _, d := range entries {
		if w.late() {
			t.Partial = true
			return
		}
		t.Entries++
		if len(rel)+1-t.level >= deepest && (d.Kind == unix.DT_DIR || d.Kind == unix.DT_UNKNOWN) {
			t.Partial = true
			continue
		}
		w.entry(dir, append(rel, d.Name), d, t)
	}
}
