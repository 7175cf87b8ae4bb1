package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

const (
	// listen is how long a command that runs once listens: the kubelet repeats itself every 2 s.
	listen = 2500 * time.Millisecond
	// recallTime is how long it may read what the kubelet said before: a million entries of its
	// unit take some 2 s.
	recallTime = 10 * time.Second
)

// hear returns what the logs say, for a command that runs once: what is said now, and what
// the journal has of the kubelet since it started. Nothing is remembered, so the logs
// are read as on a first start.
func hear(ctx context.Context, cfg config.Config, clock reaper.Clock, log *slog.Logger) []reported.Claim {
	if cfg.Waive() {
		return nil // there is no kubelet whose word could count
	}
	return listenTo(ctx, cfg, clock, log, hearing{note: func(parsers.Line, parsers.Sighting, bool) {}})
}

// hearing is what somebody wants to know besides of what the logs say.
type hearing struct {
	// note is told each sighting with its line; past of one that was read back in the journal.
	note func(line parsers.Line, s parsers.Sighting, past bool)
	// back is how far back each line of the journal is wanted, and not each text once; 0 is none.
	back time.Duration
	// ended is told, once, how the reading of each log went, and from when on all of the journal was
	// read. Where it is set, the listening goes on until each log was read to its end.
	ended func(states map[string]source.State, since time.Time)
}

// listenTo reads the logs for hear, and tells h.
func listenTo(ctx context.Context, cfg config.Config, clock reaper.Clock, log *slog.Logger, h hearing) []reported.Claim {
	progress.From(ctx).Begin("listening to the kubelet's log", "", 0)
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	now, cancelNow := context.WithCancel(ctx)
	defer cancelNow()
	units := newUnits(cfg, log)
	all := newSources(ctx, cfg, units, log)
	f := source.Follow(now, all, nil, log, func(string, bool, time.Time) {})
	began := clock.Now()
	since := began.Wall.Add(-h.back)
	past, oldest := recall(ctx, cfg, began, all, since, log), began.Wall
	recalled := past.lines
	parse, parseOld := newParse(cfg, units), newParse(cfg, units)
	var said reported.Claims
	tick := time.NewTicker(listen)
	defer tick.Stop()
	states := map[string]source.State{}
	for listening := true; listening || recalled != nil; {
		select {
		case line := <-f.Lines():
			if s, ok := parse(line); ok {
				said.Add(reported.Claim{Sighting: s, At: clock.Now()})
				h.note(line, s, false)
			}
		case line, more := <-recalled:
			if !more {
				if recalled = nil; ctx.Err() != nil {
					since = oldest // the time was up
				}
				if !past.dropped.IsZero() {
					since = past.dropped
					said.Add(reported.DroppedAt(before(clock.Now(), past.dropped)))
				}
				continue
			}
			if s, ok := parseOld(line); ok && !s.Time.IsZero() {
				said.Add(reported.Claim{Sighting: s, At: before(clock.Now(), s.Time)})
				h.note(line, s, true)
				oldest = s.Time
			}
		case <-tick.C:
			if states = f.States(); h.ended != nil && unsettled(states) && ctx.Err() == nil {
				tick.Reset(time.Second / 4)
				continue
			}
			if listening {
				listening = false
				cancelNow()
				f.Wait()
			}
		}
	}
	if h.ended != nil {
		h.ended(states, since)
	}
	return said.Take()
}

// unsettled reports whether a log is still being read for the first time.
func unsettled(states map[string]source.State) bool {
	for _, s := range states {
		if !s.Reached && s.Err == nil {
			return true
		}
	}
	return false
}

// recall reads the journal back to the start of the kubelet that runs, and at least to every where each
// line since then is wanted, where it is read at all.
func recall(ctx context.Context, cfg config.Config, now policy.Instant, all []source.Source, every time.Time, log *slog.Logger) *recalling {
	journald := slices.ContainsFunc(all, func(s source.Source) bool { _, ok := s.(*source.Journal); return ok })
	started, runs := kubelet.Start(ctx, procDir)
	if !journald || !runs && !every.Before(now.Wall) {
		return &recalling{}
	}
	from := every
	if start := now.Wall.Add(started - now.Boot); runs && start.Before(from) {
		from = start
	}
	lines := make(chan parsers.Line)
	past := &recalling{lines: lines}
	go func() {
		defer close(lines)
		ctl, err := source.FindJournalctl()
		if err == nil {
			past.dropped, err = newJournal(cfg, ctl, newUnits(cfg, log), log).Recall(ctx, from, every, lines)
		}
		if err != nil {
			log.WarnContext(ctx, "cannot read the kubelet's earlier log lines", slog.Any("error", err))
		}
	}()
	return past
}

// recalling is what is read back in the journal.
type recalling struct {
	lines   <-chan parsers.Line // closed at the end; nil where there is nothing to read
	dropped time.Time           // see Journal.Recall; set before lines is closed
}

// before is when a line was written. It may be older than this boot, or of a clock that was set since:
// whether it counts is for Evident to say, by the same times.
func before(now policy.Instant, at time.Time) policy.Instant {
	return policy.Instant{Boot: now.Boot - now.Wall.Sub(at), BootID: now.BootID, Wall: at}
}
