package audit

import (
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// sender sends to the journal and gives up after a time. go-systemd keeps one socket for
// the process and gives no way to bound the wait, so what hangs is left behind in a
// goroutine, at most one: until it comes back every other record is refused at once.
type sender struct {
	send    func(message string, p journal.Priority, vars map[string]string) error
	timeout time.Duration

	mu    sync.Mutex
	stuck <-chan struct{} // ends when the send that hangs comes back, nil where none does
}

func (s *sender) do(message string, p journal.Priority, vars map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck != nil {
		select {
		case <-s.stuck: // its record counts as not sent, whatever became of it
			s.stuck = nil
		default:
			return ErrStuck
		}
	}
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = s.send(message, p, vars)
	}()
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case <-done:
		if err != nil {
			return fmt.Errorf("cannot send to the journal: %w", err)
		}
		return nil
	case <-timer.C:
		s.stuck = done
		return ErrStuck
	}
}
