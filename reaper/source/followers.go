package source

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Checkpoints are the positions of all sources, by name.
type Checkpoints map[string]Position

// Followers run the sources until its context ends.
type Followers struct {
	lines chan parsers.Line
	done  sync.WaitGroup
	from  Checkpoints
	log   *slog.Logger
	meter func(source string, up bool, lastLine time.Time)

	mu  sync.Mutex
	all []Source
}

// Follow starts all sources where the checkpoints say, each in its own goroutine. A source
// that cannot go on is told once; the others go on without it.
func Follow(ctx context.Context, all []Source, from Checkpoints, log *slog.Logger, meter func(string, bool, time.Time)) *Followers {
	f := &Followers{lines: make(chan parsers.Line), from: from, log: log, meter: meter}
	for _, s := range all {
		f.add(ctx, s)
	}
	return f
}

// Lines returns the lines of all sources.
func (f *Followers) Lines() <-chan parsers.Line { return f.lines }

func (f *Followers) add(ctx context.Context, s Source) {
	f.mu.Lock()
	f.all = append(f.all, s)
	f.mu.Unlock()
	f.meter(s.Name(), true, time.Time{})
	f.done.Go(func() {
		if err := s.Run(ctx, f.from[s.Name()], f.lines); err != nil {
			f.log.ErrorContext(ctx, "a log is no longer followed; restart orphan-reaper once that is mended",
				slog.String("source", s.Name()), slog.Any("error", err))
			f.meter(s.Name(), false, time.Time{})
		}
	})
}

// Relook asks at each tick which files are to be followed besides, and follows those that are new.
// None is given up: a kubelet that is being started again has none.
func (f *Followers) Relook(ctx context.Context, tick <-chan time.Time, files func() []string) {
	f.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			for _, path := range files() {
				if slices.ContainsFunc(f.sources(), func(s Source) bool { return s.Name() == path }) {
					continue
				}
				f.log.InfoContext(ctx, "the kubelet's lines come to this file, too: it is followed from now on", slog.String("source", path))
				f.add(ctx, NewFile(FileOptions{Path: path, Logger: f.log}))
			}
		}
	})
}

func (f *Followers) sources() []Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// stragglers is how long sources may take to end. A read that hangs, of a log on a file
// system whose server is gone, ends with the process only.
const stragglers = 2 * time.Second

// Wait returns when the sources have ended, whose context has, or are not to be waited for.
func (f *Followers) Wait() {
	ended := make(chan struct{})
	go func() { f.done.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(stragglers):
	}
}

// Positions returns how far each source was read.
func (f *Followers) Positions() Checkpoints {
	at := Checkpoints{}
	for _, s := range f.sources() {
		at[s.Name()] = s.Position()
	}
	return at
}
