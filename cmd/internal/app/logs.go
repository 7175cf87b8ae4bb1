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
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

const (
	// listenTime is how long a command that runs once follows the logs: the kubelet repeats a report every 2 s.
	listenTime = 2500 * time.Millisecond
	// readBackTime limits the reading of earlier lines: a unit's million entries need some 2 s.
	readBackTime = 10 * time.Second
	// endTime is how long journalctl may take to end after that.
	endTime = 2 * time.Second
)

// recentClaims returns the claims in the logs for a command that runs once: in lines that are written now, and in the journal
// of the last five minutes. It uses and saves no checkpoints.
func recentClaims(ctx context.Context, cfg config.Config, clock reaper.Clock, log *slog.Logger) []reported.Claim {
	if cfg.Waive() {
		return nil // there is no kubelet
	}
	return readLogs(ctx, cfg, clock, log, observer{note: func(parsers.Line, parsers.Sighting, bool) {}, back: 5 * time.Minute})
}

// observer gets more from the logs than the claims.
type observer struct {
	// note is called with each sighting and its line. past marks those that were read back in the journal.
	note func(line parsers.Line, s parsers.Sighting, past bool)
	// back is the time for which the journal is read back.
	back time.Duration
	// ended is called at the end with the state of each log, and with the time since which all of the journal was read. If
	// it is set, each log is read to its end.
	ended func(states map[string]source.State, since time.Time)
}

func readLogs(ctx context.Context, cfg config.Config, clock reaper.Clock, log *slog.Logger, h observer) []reported.Claim {
	progress.From(ctx).Begin("listening to the kubelet's log", "", 0)
	ctx, cancel := context.WithTimeout(ctx, readBackTime)
	defer cancel()
	now, cancelNow := context.WithCancel(ctx)
	defer cancelNow()
	units := newUnits(cfg, log)
	all := newSources(ctx, cfg, units, log)
	f := source.Follow(now, all, nil, log, func(string, bool, time.Time) {})
	began := clock.Now()
	since := began.Wall.Add(-h.back)
	past, oldest := readBack(ctx, cfg, all, since, log), began.Wall
	earlier := past.lines
	parse, parseOld := newParse(cfg, units), newParse(cfg, units)
	var claims reported.Claims
	tick := time.NewTicker(listenTime)
	defer tick.Stop()
	states := map[string]source.State{}
	over, late := ctx.Done(), (<-chan time.Time)(nil)
	for listening := true; listening || earlier != nil; {
		select {
		case <-over:
			over, late = nil, time.After(endTime)
		case <-late:
			earlier, since = nil, oldest // journalctl hangs in the kernel, or its output is held open
		case line := <-f.Lines():
			if s, ok := parse(line); ok {
				claims.Add(reported.Claim{Sighting: s, At: clock.Now()})
				h.note(line, s, false)
			}
		case line, more := <-earlier:
			if !more {
				if earlier = nil; ctx.Err() != nil {
					since = oldest // the time limit
				}
				if !past.dropped.IsZero() {
					since = past.dropped
					claims.Add(reported.DroppedAt(before(clock.Now(), past.dropped)))
				}
				continue
			}
			if s, ok := parseOld(line); ok && !s.Time.IsZero() {
				claims.Add(reported.Claim{Sighting: s, At: before(clock.Now(), s.Time)})
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
	return claims.Take()
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

// readBack reads the journal back to the time every. Without a source that is the journal it reads nothing.
func readBack(ctx context.Context, cfg config.Config, all []source.Source, every time.Time, log *slog.Logger) *earlierLines {
	journald := slices.ContainsFunc(all, func(s source.Source) bool { _, ok := s.(*source.Journal); return ok })
	if !journald {
		return &earlierLines{}
	}
	lines := make(chan parsers.Line)
	past := &earlierLines{lines: lines}
	go func() {
		defer close(lines)
		ctl, err := source.FindJournalctl()
		if err == nil {
			past.dropped, err = newJournal(cfg, ctl, newUnits(cfg, log), log).Recall(ctx, every, every, lines)
		}
		if err != nil {
			log.WarnContext(ctx, "cannot read the kubelet's earlier log lines", slog.Any("error", err))
		}
	}()
	return past
}

// earlierLines are lines that are read back in the journal.
type earlierLines struct {
	lines   <-chan parsers.Line // closed at the end; nil if there is nothing to read
	dropped time.Time           // see Journal.Recall; set before lines is closed
}

// before returns the instant of the wall clock time at. It may be before this boot, or of a clock that was set since: policy
// compares it with times of the same kind.
func before(now policy.Instant, at time.Time) policy.Instant {
	return policy.Instant{Boot: now.Boot - now.Wall.Sub(at), BootID: now.BootID, Wall: at}
}
