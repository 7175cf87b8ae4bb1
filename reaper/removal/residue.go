package removal

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// maxLeft limits the rows of kept files. The rest is summed in one row per class.
const maxLeft = 256

// note keeps the first error that did not stop the walk.
func (w *walker) note(err error) {
	if w.first == nil {
		w.first = err
	}
}

// share returns a file's allocated bytes divided by the number of its names.
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

// quoted returns a path for records, shortened if it is very long and quoted if it has unprintable characters.
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
	// surveyEntries and surveyDepth limit the survey of a tree that is kept. All directories up to surveyDepth
	// remain open, so that none is listed twice.
	surveyEntries = 10_000
	surveyDepth   = 40
)

// survey is the result of a walk in mode count over a tree that may not be removed. It gives the record the size
// of the tree, and finds trees that hold only directories.
type survey struct {
	root      int // index of its top directory in the stack
	residue   policy.Residue
	files     bool // there is a file, or something that could not be opened
	exhausted bool
}

// beginSurvey begins the survey of a directory of f that is about to be pushed.
func (w *walker) beginSurvey(f, child *frame) {
	child.mode = count
	w.survey = survey{root: len(w.stack), residue: policy.Residue{Path: quoted(w.rel(f, child.name)), Class: child.class}}
	w.survey.add(child.bytes)
}

func (s *survey) add(bytes int64) {
	s.residue.Entries++
	s.residue.Bytes += bytes
}

// over reports whether the survey has reached a limit.
func (s *survey) over() bool {
	s.exhausted = s.exhausted || s.residue.Entries >= surveyEntries
	return s.exhausted
}

// endSurvey ends the survey of the tree of f. A tree that holds only directories is skeleton: it is walked again,
// and removed by rmdir alone, which never removes a file that appears meanwhile.
func (w *walker) endSurvey(f *frame) (again bool, err error) {
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
