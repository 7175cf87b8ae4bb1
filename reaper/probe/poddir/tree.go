package poddir

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

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
