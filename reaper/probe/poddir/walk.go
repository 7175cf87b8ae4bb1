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

// The bounds of a walk. A pod's directory is a skeleton that the kubelet makes, at most four
// levels deep, and below it trees of one class each: volumes, most of all. The skeleton must be
// read to its end, since it shows which volumes there are. A tree's class is known by its path,
// so a tree is counted for the report only, and no verdict waits for the sum: beyond the bounds it
// is Partial. Mounts below a tree are found by mountinfo; a walk that meets one reports it, too,
// and a removal stops at each.
const (
	// mostEntries is the most of one directory of the skeleton, and what is counted of one tree.
	mostEntries = 10_000
	// mostSkeleton is the most of all the skeleton's directories of one pod together.
	mostSkeleton = 50_000
	// mostCounted is what one look counts in all trees of all pods.
	mostCounted = 1_000_000
	deepest     = 24 // also bounds the open directories of one walk
	mostRows    = 200
	mostVolData = 1 << 20 // of one vol_data.json; the kubelet writes some 500 bytes
	// mostVolDatas is the most that is kept of all of them of one pod.
	mostVolDatas = 8 << 20
)

// walker reads one pod directory.
type walker struct {
	*Content
	bounds
	ended func() error // the context's: why to stop, or nil
	dev   uint64
	mount uint64
	left  int // of mostSkeleton
	*scratch
	// ephemeral: the CSI volume whose directory is being read lives as long as its pod.
	ephemeral bool
}

// errSubvolume is of a btrfs subvolume: it is no mount, may be of any use, and is not entered.
var errSubvolume = errors.New("another device without a mount: a subvolume")

// bounds are what one walk may take, and what it is for.
type bounds struct {
	each   int // entries of one directory of the skeleton, and of one tree
	counts *counting
	until  time.Time // when counting this pod ends: the rest is the skeleton's
	end    time.Time // when the walk ends
	etc    bool      // read etc-hosts
	origin string    // the directory, for messages
}

// counting is what the walks of one look may count in trees, together and in time.
type counting struct {
	left  atomic.Int64
	ended func() error
}

func newCounting(ctx context.Context) *counting {
	c := &counting{ended: ctx.Err}
	c.left.Store(mostCounted)
	return c
}

// late reports whether the time for counting is over, that of the pod or that of the look.
func (w *walker) late() bool {
	return w.counts.ended() != nil || time.Now().After(w.until) //nolint:forbidigo // as a context's deadline: no verdict rests on it
}

// room is how many more entries may be counted.
func (w *walker) room() int {
	if w.late() {
		return 0
	}
	return int(max(0, w.counts.left.Load()))
}

// readContent walks the pod directory that fd holds and classes what it finds. It opens
// directories, vol_data.json, etc-hosts and userns, nothing else.
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
	c.note(st)
	c.add(here, contents.ClassSkeleton, blocksOf(st), 1)
	w.mixed(dir, s.rel[:0])
	s.rows, s.inodes = c.Rows, c.Inodes
	c.Rows, c.Inodes, c.byKey = slices.Clone(c.Rows), slices.Clone(c.Inodes), nil
	slices.SortFunc(c.Rows, func(a, b policy.Residue) int { return strings.Compare(a.Path, b.Path) })
	return c
}

// mixed reads a directory of the skeleton: its entries are each of their own class.
func (w *walker) mixed(dir *beneath.Dir, rel []string) {
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
		// What another directory takes must not be taken from the volumes.
		first(entries, "volumes")
	case contents.IsCSIVolume(rel):
		// It has the class of what lies beside it.
		w.ephemeral = false
		first(entries, contents.VolData)
	}
	for _, d := range entries {
		if err := w.over(); err != nil {
			w.unread(rel, err)
			return
		}
		w.entry(dir, append(rel, d.Name), d, nil)
	}
}

// over returns why the walk has to end.
func (w *walker) over() error {
	err := w.ended()
	if errors.Is(err, context.DeadlineExceeded) || err == nil && time.Now().After(w.end) { //nolint:forbidigo // as a context's deadline
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

// errSlow: the walk ends by itself before it counts as hung.
var errSlow = errors.New("the disk is too slow: there was no time left for it")

// cut notes a directory of the skeleton that has more entries than are read. Where all
// volumes must be known that is a doubt. Elsewhere each entry is judged when it is removed:
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

// entry reads one entry of a directory of the skeleton, where t is nil, or of a tree.
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
		w.uniform(dir, rel, class, &st)
		return
	}
	w.add(w.top(rel, true), contents.ClassSkeleton, blocksOf(&st), 1)
	w.mixed(dir, rel)
}

// enter opens one entry that is or may be a directory: ENOTDIR for what is none by the listing, without touching it.
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
	w.note(&st)
	return dir, st, nil
}

// file classes what is no directory, or counts it. A mount point among the files shows by the mount ID
// of statx (Linux 5.8); before, only in mountinfo.
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
	w.note(&st)
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

// keepVolData keeps the file's content: it names the volume that may still be staged, and
// the record must hold it once the file is gone.
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

// list returns the names of a directory, and beneath.ErrTooMany beside them where there are more
// than limit. They last until forget.
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

// forget gives up the names that were listed after the first so many.
func (w *walker) forget(from int) { w.entries = w.entries[:from] }

// tree is what was counted below a directory of one class.
type tree struct {
	policy.Residue
	files bool
	level int // of its entries, in the pod directory
	left  int // entries that may still be counted
}

// uniform counts a tree of one class, as far as its own budget and the look's go. Only what is
// data or ephemeral and holds nothing but directories, all of them seen, is skeleton.
func (w *walker) uniform(dir *beneath.Dir, rel []string, class contents.Class, st *unix.Statx_t) {
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
