package poddir

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// uniform counts a tree of one class, as far as its own budget and the look's go. Only what is
// data or ephemeral and holds nothing but directories, all of them seen, is skeleton.
func (w *walker) uniform(dir *beneath.Dir, rel []string, class contents.Class, st *unix.Statx_t) {
	t := tree{residue: policy.Residue{Entries: 1, Bytes: blocksOf(st)}, left: w.each}
	w.count(dir, rel, 0, &t)
	if class != contents.ClassProjected && !t.files && !t.residue.Partial {
		class = contents.ClassSkeleton
	}
	i := w.add(w.join(rel), class, t.residue.Bytes, t.residue.Entries)
	w.Rows[i].Partial = w.Rows[i].Partial || t.residue.Partial
}

type tree struct {
	residue policy.Residue
	files   bool
	left    int // entries that may still be counted
}

func (w *walker) count(dir *beneath.Dir, rel []string, depth int, t *tree) {
	defer w.forget(len(w.entries))
	entries, err := w.list(dir, min(t.left, w.room()))
	t.left -= len(entries)
	w.counts.left.Add(-int64(len(entries)))
	if errors.Is(err, beneath.ErrTooMany) {
		t.residue.Partial = true
		err = nil
	}
	if err != nil {
		w.fail(rel, err)
		return
	}
	for _, d := range entries {
		if w.late() {
			t.residue.Partial = true
			return
		}
		w.countEntry(dir, append(rel, d.Name), d, depth, t)
	}
}

func (w *walker) countEntry(parent *beneath.Dir, rel []string, d beneath.Entry, depth int, t *tree) {
	t.residue.Entries++
	if depth >= deepest && (d.Kind == unix.DT_DIR || d.Kind == unix.DT_UNKNOWN) {
		t.residue.Partial = true
		return
	}
	dir, st, err := w.enter(parent, d)
	switch {
	case errors.Is(err, unix.EXDEV):
		t.residue.Partial = true
		w.crossed(rel)
		return
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		t.files = true
		st, err := parent.StatName(d.Name)
		switch {
		case err != nil:
			w.fail(rel, err)
		case w.foreign(&st):
			t.residue.Partial = true
			w.crossed(rel)
		default:
			w.note(&st)
			t.residue.Bytes += blocksOf(&st)
		}
		return
	case beneath.Gone(err):
		t.residue.Entries--
		return
	case err != nil:
		t.residue.Partial = true
		w.fail(rel, err)
		return
	}
	defer dir.Close()
	t.residue.Bytes += blocksOf(&st)
	w.count(dir, rel, depth+1, t)
}
