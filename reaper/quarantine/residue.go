package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// maxLeft limits the rows of what is kept. The rest is summed in one row for each class.
const maxLeft = 256

// row adds a row of what is kept.
func (r *removal) row(row judge.Residue) {
	left := r.out.Left
	if len(left) < maxLeft {
		r.out.Left = append(left, row)
		return
	}
	for i := maxLeft; i < len(left); i++ {
		if left[i].Class == row.Class {
			left[i].Bytes += row.Bytes
			left[i].Entries += row.Entries
			return
		}
	}
	row.Path, row.Partial = ".", true
	r.out.Left = append(left, row)
}

// keep records one file that is kept.
func (r *removal) keep(f *frame, name string, class content.Class, st *statx) {
	f.kept = true
	r.row(judge.Residue{Path: quoted(f.l.Rel(name)), Class: class, Tally: judge.Tally{Entries: 1, Bytes: share(st)}})
}

// keepDir records a directory of f, or f itself, that is kept because of an error.
func (r *removal) keepDir(f *frame, rel []string, path string, err error) {
	f.kept = true
	r.row(judge.Residue{Path: quoted(rel), Class: f.class, Tally: judge.Tally{Entries: 1}, Partial: true})
	if r.first == nil {
		r.first = fdpath.OpenError(path, err)
	}
}

// note keeps the first error that did not stop the walk.
func (r *removal) note(l *fdpath.Level, name, op string, err error) {
	if r.first == nil {
		r.first = fdpath.PathError(op, pathOf(l, name), err)
	}
}

// share returns a file's allocated bytes divided by the number of its names.
func share(st *statx) int64 { return fdpath.Bytes(st) / max(1, int64(st.Nlink)) }

// pathOf returns the path of name in l for messages, without the middle of a long one.
func pathOf(l *fdpath.Level, name string) string {
	var names []string
	if name != "" {
		names = append(names, name)
	}
	for ; l != nil; l = l.Up {
		names = append(names, l.Name)
	}
	slices.Reverse(names)
	if len(names) > 40 {
		names = slices.Concat(names[:20], []string{"…"}, names[len(names)-19:])
	}
	return strings.Join(names, "/")
}

// quoted returns a path from the pod directory for records, shortened if it is very long and quoted if it has unprintable
// characters.
func quoted(rel []string) string {
	path := strings.Join(rel, "/")
	if len(path) > 4096 {
		path = fmt.Sprintf("%s…%s", path[:2048], path[len(path)-2048:])
	}
	if path == "" {
		return "."
	}
	return bounded.Name(path)
}

const (
	// surveyEntries and surveyDepth limit the survey of one tree that is kept.
	surveyEntries = 10_000
	surveyDepth   = 40
	// countEntries limits the names that Count reads.
	countEntries = 200_000
)

var errEnough = errors.New("a limit was reached")

// survey counts a tree that is kept, for the record, and finds a tree that has only directories.
type survey struct {
	r       *removal
	from    int // depth of its top
	sum     judge.Tally
	files   bool // there is a file, or something that could not be opened
	partial bool
}

// survey counts the tree of l within the limits.
func (r *removal) survey(l *fdpath.Level) (*survey, error) {
	s := &survey{r: r, from: l.Depth}
	err := r.b.walker.Walk(l, s)
	if errors.Is(err, errEnough) {
		s.partial, err = true, nil
	}
	return s, err
}

// empty reports whether the tree is known to have nothing but directories.
func (s *survey) empty() bool { return !s.files && !s.partial }

func (s *survey) residue(rel []string, class content.Class) judge.Residue {
	if s.empty() {
		class = content.Skeleton
	}
	return judge.Residue{Path: quoted(rel), Class: class, Tally: s.sum, Partial: s.partial}
}

func (s *survey) add(bytes int64) error {
	s.sum.Entries++
	s.sum.Bytes += bytes
	if s.sum.Entries >= surveyEntries {
		return errEnough
	}
	return s.r.ended()
}

// Enter counts a directory.
func (s *survey) Enter(l *fdpath.Level, st *statx) (bool, error) {
	s.r.b.q.at(l, "")
	deep := l.Depth-s.from >= surveyDepth
	s.partial = s.partial || deep
	return !deep, s.add(fdpath.Bytes(st))
}

// File counts a file.
func (s *survey) File(_ *fdpath.Level, _ string, st *statx) error {
	s.files = true
	return s.add(share(st))
}

// Leave goes on.
func (s *survey) Leave(*fdpath.Level) (bool, error) { return false, nil }

// Failed passes on what stops a removal.
func (s *survey) Failed(l *fdpath.Level, name, op string, err error) error {
	s.files = true
	if s.r.set == content.None || fdpath.Is(err, unix.EPERM, unix.EACCES) || errors.Is(err, fdpath.ErrChanges) {
		s.partial = true
		return nil
	}
	return s.r.stop(l, name, op, err)
}

// reader returns a Quarantine for a walk beside a batch: it has its own progress, and no disk to change.
func (q *Quarantine) reader() *Quarantine {
	return &Quarantine{root: q.root, pods: q.pods, parent: q.parent, name: q.name, open: q.open, guards: q.guards, clock: q.clock}
}

// Count returns what lies in the entry, or in pods/UID if entry is "": the sums of each class, and one row for each tree or
// file. It is for display: it reads within limits, and what it has not read is Partial.
func (q *Quarantine) Count(ctx context.Context, uid parsers.PodUID, entry string) (map[content.Class]judge.Tally, []judge.Residue, error) {
	if err := validate(uid, string(uid)+".0"); err != nil {
		return nil, nil, err
	}
	h := q.openHandles(false)
	defer h.close()
	parent, name, err := h.pods, string(uid), h.podsErr
	if entry != "" {
		parent, name, err = h.quar, entry, h.quarErr
	}
	if err != nil {
		return nil, nil, err
	}
	dir, err := parent.Step(name)
	if err != nil {
		return nil, nil, fdpath.OpenError(pathOf(parent, name), err)
	}
	defer dir.Close()
	out := judge.Outcome{}
	r := &removal{b: &batch{handles: h, q: q.reader()}, out: &out}
	seen := 0
	r.ended = func() error {
		if seen++; seen > countEntries {
			return errEnough
		}
		return ctx.Err()
	}
	err = r.b.walker.Walk(&fdpath.Level{Dir: dir, Name: name, Up: parent}, r)
	if errors.Is(err, errEnough) {
		r.row(judge.Residue{Path: ".", Class: content.Data, Partial: true})
		err = nil
	}
	sums := map[content.Class]judge.Tally{}
	for _, row := range out.Left {
		t := sums[row.Class]
		sums[row.Class] = judge.Tally{Entries: t.Entries + row.Entries, Bytes: t.Bytes + row.Bytes}
	}
	return sums, out.Left, err
}
