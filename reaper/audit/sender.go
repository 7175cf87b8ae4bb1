package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// sender sends to the journal with a time limit, which go-systemd does not have. While one send hangs, it refuses every
// other record at once.
type sender struct {
	send    func(message string, p journal.Priority, vars map[string]string) error
	timeout time.Duration

	mu    sync.Mutex // one send at a time
	guard bounded.Guard
}

func (s *sender) do(message string, p journal.Priority, vars map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err, hangs := bounded.Within(context.Background(), &s.guard, "journal", s.timeout, func() error { return s.send(message, p, vars) })
	switch {
	case hangs != nil:
		return ErrStuck
	case err != nil:
		return fmt.Errorf("cannot send to the journal: %w", err)
	}
	return nil
}
