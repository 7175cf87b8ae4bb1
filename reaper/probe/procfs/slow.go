package procfs

import (
	"strconv"
	"sync"
)

// Slow remembers from one look to the next which processes used up their share. They are read last
// then. It has an effect on the order only, and nil remembers nothing.
type Slow struct {
	mu     sync.Mutex
	starts map[string]int64 // by what was read of a process, and its PID
}

// mostSlow bounds what is remembered. Above it all is forgotten, which costs a look and no more.
const mostSlow = 1000

// Was says whether the process used up its share before.
func (s *Slow) Was(dir, what, pid string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	start, ok := s.starts[what+pid]
	s.mu.Unlock()
	return ok && startOf(dir, pid) == start
}

// Note keeps whether the process did so now.
func (s *Slow) Note(dir, what, pid string, slow bool) {
	if s == nil {
		return
	}
	start := int64(0)
	if slow {
		start = startOf(dir, pid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slow {
		delete(s.starts, what+pid)
		return
	}
	if s.starts == nil || len(s.starts) >= mostSlow {
		s.starts = map[string]int64{}
	}
	s.starts[what+pid] = start
}

func startOf(dir, pid string) int64 {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return -1
	}
	st, err := StatOf(dir, n)
	if err != nil {
		return -1
	}
	return st.Start
}
