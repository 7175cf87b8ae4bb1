package removal

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// maxLeft bounds the rows of kept files; the rest is summed in one.
const maxLeft = 256

// note keeps the first error that stopped no more than one entry.
func (w *walker) note(err error) {
	if w.first == nil {
		w.first = err
	}
}

// share is a file's part of its allocated bytes among all its names.
func share(st *unix.Statx_t) int64 {
	return int64(st.Blocks) * 512 / max(1, int64(st.Nlink)) // no file has 2^63 bytes
}

// row adds a row of kept files. Beyond maxLeft, rows of one class are summed.
func (w *walker) row(r policy.Residue) {
	left := w.out.Left
	if len(left) < maxLeft {
		w.out.Left = append(left, r)
		return
	}
	for i := maxLeft; i < len(left); i++ {
		if left[i].Class == r.Class {
			left[i].Bytes += r.Bytes
			left[i].Entries += r.Entries
			return
		}
	}
	r.Path, r.Partial = ".", true
	w.out.Left = append(left, r)
}

// quoted is a path for records: as it is, or quoted where it would not survive there.
func quoted(rel []string) string {
	path := strings.Join(rel, "/")
	if len(path) > 4096 {
		path = fmt.Sprintf("%s…%s", path[:2048], path[len(path)-2048:])
	}
	if path == "" {
		return "."
	}
	return clean.Name(path)
}

const (
	// surveyEntries and surveyDepth bound the survey of a tree that is kept: it is for the record, and to find
	// trees that hold only directories. All directories up to surveyDepth remain open, so that none is listed
	// twice.
	surveyEntries = 10_000
	surveyDepth   = 40
)

// survey is the result of a walk in mode count over a tree that may not be removed.
type survey struct {
	root      int // its place in the stack
	residue   policy.Residue
	files     bool // there is anything but directories, or what could not be opened
	exhausted bool
}

// begin begins the survey of a directory of f that is about to be pushed.
func (w *walker) begin(f, child *frame) {
	child.mode = count
	w.survey = survey{root: len(w.stack), residue: policy.Residue{Path: quoted(w.rel(f, child.name)), Class: child.class}}
	w.survey.add(child.bytes)
}

// add counts one entry.
func (s *survey) add(bytes int64) {
	s.residue.Entries++
	s.residue.Bytes += bytes
}

// over ends the survey before its end.
func (s *survey) over() bool {
	s.exhausted = s.exhausted || s.residue.Entries >= surveyEntries
	return s.exhausted
}

// surveyed ends the survey of the tree of f. If it holds nothing but directories it is skeleton, and
// is removed by rmdir alone, which removes no file whatever comes in between: f is then walked again.
func (w *walker) surveyed(f *frame) (again bool, err error) {
	s := &w.survey
	if !s.files && !s.exhausted && w.take.Has(contents.ClassSkeleton) {
		f.mode, f.class, f.read = prune, contents.ClassSkeleton, false
		if err := f.dir.Rewind(); err != nil {
			return false, w.stop(policy.ReasonRemoval, "lseek", f, "", err)
		}
		return true, nil
	}
	f.kept = true
	s.residue.Partial = s.exhausted
	w.row(s.residue)
	return false, nil
}

// counted counts one name of f that is no directory.
func (w *walker) counted(st *unix.Statx_t) {
	w.survey.files = true
	w.survey.add(share(st))
}
