package poddir

import (
	"sync"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// scratch is the memory of a walk, which the next one takes over: nothing of it is in an Answer.
type scratch struct {
	buf     [32 << 10]byte // of a listing
	entries []beneath.Entry
	rel     [deepest + 8]string // the names that lead to what is read; each level overwrites its own
	text    []byte
	byKey   map[rowKey]int
	rows    []policy.Residue
	inodes  []uint64
}

func newScratch() *scratch { return &scratch{byKey: map[rowKey]int{}} }

var scratches sync.Pool

var here = []byte(".")

// join puts a path together, for a row. It lasts until the next.
func (s *scratch) join(rel []string) []byte {
	s.text = s.text[:0]
	for i, name := range rel {
		if i > 0 {
			s.text = append(s.text, '/')
		}
		s.text = append(s.text, name...)
	}
	return s.text
}

// top is the row of something that holds no data: one for each volume, one for each other
// entry of the pod directory, and one for the directories that lead there.
func (s *scratch) top(rel []string, dir bool) []byte {
	depth := 1
	switch rel[0] {
	case "volumes":
		depth = 3
	case "volume-subpaths":
		depth = 2
	}
	if dir && len(rel) < depth {
		return here
	}
	return s.join(rel[:min(depth, len(rel))])
}
