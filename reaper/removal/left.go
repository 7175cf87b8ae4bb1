package removal

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxLeft is the most rows of what is left; the rest is summed in one.
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

// row adds to what is left. Beyond maxLeft, rows of one class are summed.
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
