package wire

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

const (
	// listen is how long a command that runs once listens: the kubelet repeats itself every 2 s.
	listen = 2500 * time.Millisecond
	// recalling is how long it may read what the kubelet said before: a million entries of its
	// unit take some 2 s.
	recalling = 10 * time.Second
	// maxClaims bounds what is kept of it.
	maxClaims = 16384
)

// hear returns what the logs say, for a command that runs once: what is said now, and what
// the journal has of the kubelet since it started. Nothing is remembered, so the logs
// are read as on a first start.
func hear(ctx context.Context, cfg config.Config, clock reaper.Clock, log *slog.Logger) []heard.Claim {
	if cfg.Waive() {
		return nil // there is no kubelet whose word could count
	}
	ctx, cancel := context.WithTimeout(ctx, recalling)
	defer cancel()
	now, cancelNow := context.WithTimeout(ctx, listen)
	defer cancelNow()
	units := newUnits(cfg, log)
	all := newSources(ctx, cfg, units, log)
	f := source.Follow(now, all, nil, log, func(string, bool, time.Time) {})
	recalled := recall(ctx, cfg, clock, all, log)
	parse, parseOld := newParse(cfg, units), newParse(cfg, units)
	said := gathered{}
	for listening := now.Done(); listening != nil || recalled != nil; {
		select {
		case line := <-f.Lines():
			if s, ok := parse(line); ok {
				said.add(heard.Claim{Sighting: s, At: clock.Now()})
			}
		case line, more := <-recalled:
			if !more {
				recalled = nil
				continue
			}
			if s, ok := parseOld(line); ok && !s.Time.IsZero() {
				said.add(heard.Claim{Sighting: s, At: before(clock.Now(), s.Time)})
			}
		case <-listening:
			listening = nil
			f.Wait()
		}
	}
	return said.claims()
}

// recall reads the journal back to the start of the kubelet that runs, where it is read
// at all. The channel is closed when that has ended; nil where there is nothing to read.
func recall(ctx context.Context, cfg config.Config, clock reaper.Clock, all []source.Source, log *slog.Logger) <-chan parsers.Line {
	journald := slices.ContainsFunc(all, func(s source.Source) bool { _, ok := s.(*source.Journal); return ok })
	started, runs := kubelet.Start(ctx, procDir)
	if !journald || !runs {
		return nil
	}
	now := clock.Now()
	from := now.Wall.Add(started - now.Boot)
	lines := make(chan parsers.Line)
	go func() {
		defer close(lines)
		ctl, err := source.FindJournalctl()
		if err == nil {
			err = newJournal(cfg, ctl, newUnits(cfg, log), log).Recall(ctx, from, lines)
		}
		if err != nil {
			log.WarnContext(ctx, "cannot read what the kubelet said before", slog.Any("error", err))
		}
	}()
	return lines
}

// before is when a line was written. It may be older than this boot, or of a clock that was set since:
// whether it counts is for Evident to say, by the same times.
func before(now policy.Instant, at time.Time) policy.Instant {
	return policy.Instant{Boot: now.Boot - now.Wall.Sub(at), BootID: now.BootID, Wall: at}
}

// gathered holds the last claim of each kind: for each pod and volume, for each process that may
// have made it, and for what makes it evidence. A forged line cannot push out the kubelet's own.
type gathered map[gatheredKey]heard.Claim

type gatheredKey struct {
	uid                            parsers.PodUID
	volume                         string
	pid                            int
	teardown, trusted, whole, json bool
}

func (g gathered) add(c heard.Claim) {
	s := c.Sighting
	key := gatheredKey{s.UID, s.Volume, s.PID, s.Report == parsers.ReportTeardown, s.Trusted, s.Whole, s.JSON}
	if last, ok := g[key]; (ok && last.At.Boot < c.At.Boot) || (!ok && len(g) < maxClaims) {
		g[key] = c
	}
}

func (g gathered) claims() []heard.Claim {
	all := make([]heard.Claim, 0, len(g))
	for _, c := range g {
		all = append(all, c)
	}
	return all
}
