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

// Follow starts all sources at the checkpoints, each in its own goroutine. If one fails, it logs this
// once, and the others go on.
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
			f.log.ErrorContext(ctx, "a log is no longer followed; fix the error, then restart orphan-reaper",
				slog.String("source", s.Name()), slog.Any("error", err))
			f.meter(s.Name(), false, time.Time{})
		}
	})
}

// Relook calls files at each tick, and follows the new files. It drops none, since a kubelet that restarts
// has none for a moment.
func (f *Followers) Relook(ctx context.Context, tick <-chan time.Time, now func() time.Time, files func() []string) {
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
				f.log.InfoContext(ctx, "the kubelet also logs to this file; following it", slog.String("source", path))
				f.add(ctx, NewFile(path, now, f.log))
			}
		}
	})
}

func (f *Followers) sources() []Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// endTimeout is how long Wait waits. A read that hangs on a dead server's file system ends only with the process.
const endTimeout = 2 * time.Second

// Wait returns when all sources have ended after their context, or after a timeout.
func (f *Followers) Wait() {
	ended := make(chan struct{})
	go func() { f.done.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(endTimeout):
	}
}

// Positions returns the position of each source, by name.
func (f *Followers) Positions() Checkpoints {
	at := Checkpoints{}
	for _, s := range f.sources() {
		at[s.Name()] = s.Position()
	}
	return at
}

// States returns the state of each source, by name.
func (f *Followers) States() map[string]State {
	at := map[string]State{}
	for _, s := range f.sources() {
		at[s.Name()] = s.State()
	}
	return at
}

// Units are the units in which kubelets run, besides the usual ones.
type Units struct {
	find func(context.Context) []string // may be nil
	log  *slog.Logger

	mu  sync.Mutex
	all []string
}

// NewUnits returns the units that find returns; find may be nil.
func NewUnits(find func(context.Context) []string, log *slog.Logger) *Units {
	return &Units{find: find, log: log}
}

// Find returns all units that were ever found: while a kubelet restarts, find returns none.
func (u *Units) Find(ctx context.Context) []string {
	if u.find == nil {
		return nil
	}
	now := u.find(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, unit := range now {
		if !slices.Contains(parsers.KubeletUnits(), unit) && !slices.Contains(u.all, unit) {
			u.all = append(u.all, unit)
			u.log.InfoContext(ctx, "a kubelet runs in this unit; reading its journal, too", slog.String("unit", unit))
		}
	}
	return slices.Clone(u.all)
}

// RunsKubelet reports whether a kubelet was found in the unit.
func (u *Units) RunsKubelet(unit string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.all, unit)
}
