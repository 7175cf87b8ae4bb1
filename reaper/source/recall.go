package source

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// enoughSame is how many known texts in a row end the reading: a kubelet reports one orphan for weeks,
	// every 2 s.
	enoughSame = 2000
	// maxRecalled bounds the different texts, since any process can write entries.
	maxRecalled = 16384
)

// Recall sends the journal's lines since from, the youngest first: each line that is younger than
// every, and of the others each text once. It returns at the journal's end, after enoughSame known texts, or
// when its context ends. If there are more texts than maxRecalled, dropped is the time of the youngest
// entry that it left out.
func (j *Journal) Recall(ctx context.Context, from, every time.Time, lines chan<- parsers.Line) (dropped time.Time, err error) {
	j.started = j.opts.Now()
	for {
		j.match(ctx)
		j.forget()
		r := recalling{j: j, every: every, lines: lines, known: map[string]bool{}}
		err := j.run(ctx, append([]string{"--reverse"}, j.searching(since(from), j.present(ctx, since(from)))...), r.line)
		switch {
		case ctx.Err() != nil || errors.Is(err, errEnough) || reachedEnd(err):
			return r.dropped, nil //nolint:nilerr // the reading is complete
		case !j.adapt(ctx, err):
			return r.dropped, err
		}
	}
}

// recalling is the state of one Recall.
type recalling struct {
	j       *Journal
	every   time.Time
	lines   chan<- parsers.Line
	known   map[string]bool // the texts that were sent
	same    int             // entries in a row with a known text
	dropped time.Time
}

func (r *recalling) line(ctx context.Context, line []byte) error {
	if r.same >= enoughSame {
		return errEnough
	}
	e, err := decodeEntry(line)
	if err != nil || !slices.ContainsFunc(e.messages, parsers.Interesting) {
		return nil //nolint:nilerr // it is not a line of a kubelet
	}
	text := e.text()
	switch known := r.known[text]; {
	case known && !e.fields.Time.After(r.every):
		r.same++
		return nil
	case !known && len(r.known) == maxRecalled:
		r.dropped = e.fields.Time
		return errEnough
	case !known:
		r.known[text], r.same = true, 0
	}
	return r.j.deliver(ctx, e, false, r.lines)
}
