package probe

import (
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// timed is how long the parts of one look took.
type timed struct {
	mu  sync.Mutex
	all []policy.Timing
}

// mostParts is how many parts a look has, so that the list is made once.
const mostParts = 20

// now is the moment on the boot clock.
func (l *gathering) now() time.Duration { return l.probe.cfg.Clock.Now().Boot }

// took notes that a part which began then has ended.
func (l *gathering) took(part string, began time.Duration) {
	end := l.now()
	l.timed.mu.Lock()
	defer l.timed.mu.Unlock()
	if l.timed.all == nil {
		l.timed.all = make([]policy.Timing, 0, mostParts)
	}
	l.timed.all = append(l.timed.all, policy.Timing{Name: part, Begin: began, End: end})
}

// part has f run in a goroutine once after is closed, at once where it is nil, and notes how long f took.
func (l *gathering) part(wg *sync.WaitGroup, name string, after <-chan struct{}, f func()) {
	wg.Go(func() {
		if after != nil {
			<-after
		}
		defer l.took(name, l.now())
		f()
	})
}
