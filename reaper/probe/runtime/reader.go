package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// Reader asks the container runtimes of the node.
type Reader struct {
	Silent bool     // nothing is asked: the operator has stated that there is no runtime
	Usual  []string // the usual places of sockets
	// Find decides which sockets are asked, of the usual ones or of those that were named.
	Find  func(usual []string) cri.Sockets
	Now   func() time.Time
	Guard *bounded.Guard
}

// ErrNotAsked is the operator's choice, and no failure.
var ErrNotAsked = errors.New("not asked: --runtime-endpoint none")

// Sockets finds the runtimes that are to be asked.
func (r *Reader) Sockets(ctx context.Context) (cri.Sockets, error) {
	if r.Silent {
		return cri.Sockets{}, ErrNotAsked
	}
	found, err := bounded.Do(ctx, r.Guard, "the runtime's sockets", func() cri.Sockets { return r.Find(r.Usual) })
	if err == nil {
		err = found.Err
	}
	if err != nil {
		return found, fmt.Errorf("cannot find the runtime: %w", err)
	}
	return found, nil
}

// Lists finds the sockets and asks all of them at once.
func (r *Reader) Lists(ctx context.Context) ([]cri.Lists, cri.Sockets, error) {
	found, err := r.Sockets(ctx)
	if err != nil {
		return nil, found, err
	}
	answers := make([]cri.Lists, len(found.Paths))
	var wg sync.WaitGroup
	for i, path := range found.Paths {
		wg.Go(func() { answers[i] = cri.List(ctx, path, r.Guard.Limit(), cri.MaxAnswer) })
	}
	wg.Wait()
	return answers, found, nil
}

// Ask asks the runtime for all sandboxes and containers in every state, one call
// each. It returns within three times the guard's patience whatever hangs, and keeps no
// connection: between looks the runtime costs nothing.
//
// It must be called after the pods directory was listed: a pod that is made between the
// two is then in the answer, not in the listing.
func (r *Reader) Ask(ctx context.Context) Answer {
	answers, found, err := r.Lists(ctx)
	var a Answer
	switch {
	case err == nil:
		a = merge(answers, found, r.Now())
	case errors.Is(err, ErrNotAsked):
		a = unanswered(err)
		a.Err = nil
	default:
		a = unanswered(err)
	}
	a.Sockets = found.Paths
	return a
}
