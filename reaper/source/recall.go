package source

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// enoughSame is how many entries in a row may say what is known already before no older one is
// read: a kubelet names one orphan for weeks, every 2 s.
const enoughSame = 2000

// errEnough ends a reading of the past.
var errEnough = errors.New("nothing new comes")

// Recall hands over what the journal has from a time on, the youngest entry first: of what is
// younger than every each entry, of the rest each text once. It returns at the journal's end, when
// nothing new comes, or with its context. Where there are more texts than it reads, dropped is the time of the
// youngest entry that it left out.
func (j *Journal) Recall(ctx context.Context, from, every time.Time, lines chan<- parsers.Line) (dropped time.Time, err error) {
	j.started = j.opts.Now()
	for {
		j.match(ctx)
		args := append([]string{"--reverse"}, j.arguments(since(from), false, j.present(ctx, since(from)))...)
		clear(j.streams)
		clear(j.asked)
		j.lookups = 0
		err := j.run(ctx, args, func(ctx context.Context, out io.Reader) (err error) {
			dropped, err = j.recall(ctx, out, every, lines)
			return err
		})
		switch {
		case ctx.Err() != nil || errors.Is(err, errEnough) || reachedEnd(err):
			return dropped, nil //nolint:nilerr // these are its ends
		case !j.adapt(ctx, err):
			return dropped, err
		}
	}
}

// recall reads what the child prints.
func (j *Journal) recall(ctx context.Context, out io.Reader, every time.Time, lines chan<- parsers.Line) (dropped time.Time, err error) {
	r := newLineReader(out, maxEntry)
	known := map[string]bool{}
	for same := 0; same < enoughSame; {
		line, err := r.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return dropped, nil
			}
			return dropped, err
		}
		e, err := decodeEntry(line)
		if err != nil {
			continue
		}
		if !e.interesting() {
			continue
		}
		text, young := e.text(), e.fields.Time.After(every)
		if known[text] && !young {
			same++
			continue
		}
		if !known[text] {
			if len(known) == maxRecalled {
				return e.fields.Time, errEnough
			}
			known[text], same = true, 0
		}
		if err := j.deliver(ctx, e, false, lines); err != nil {
			return dropped, err
		}
	}
	return dropped, errEnough
}

// maxRecalled bounds how many different texts are read: who can make entries cannot buy memory.
const maxRecalled = 16384
