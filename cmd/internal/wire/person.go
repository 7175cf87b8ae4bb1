package wire

import (
	"context"
	"errors"
	"os"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// byPerson opens the state for one action of a person, beside a daemon that may run. The
// record of it goes where the daemon's go; the metrics are the daemon's.
func byPerson(ctx context.Context, cfg config.Config, act func(*reaper.Reaper) error) error {
	log := newLogger(cfg, os.Stderr)
	store, err := state.Open(cfg.StateDir, state.Options{Log: log})
	if err != nil {
		return err
	}
	defer closeQuietly(store)
	if err := sameQuarantine(cfg, store); err != nil {
		return err
	}
	cfg.Mode = config.ModeEnforce // a person's word is not observing
	r, err := newReaper(ctx, cfg, store, log, newTeller(cfg, os.Stderr), silent{})
	if err != nil {
		return err
	}
	return act(r)
}

// Restore puts a pod directory back by a person's word.
func Restore(ctx context.Context, cfg config.Config, uid parsers.PodUID) (o policy.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		o, err = r.Restore(ctx, uid)
		return err
	})
	return o, err
}

// Purge removes for ever, by a person's word, what lies in quarantine of these pods; of those
// that live again only with living.
func Purge(ctx context.Context, cfg config.Config, uids []parsers.PodUID, living bool) ([]policy.Outcome, error) {
	var outs []policy.Outcome
	err := byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		var errs []error
		for _, uid := range uids {
			done, err := r.PurgeEntries(ctx, uid, living)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			outs = append(outs, done...)
		}
		return errors.Join(errs...)
	})
	return outs, err
}

// Resume closes the breaker.
func Resume(ctx context.Context, cfg config.Config) error {
	return byPerson(ctx, cfg, func(r *reaper.Reaper) error { return r.Resume(ctx) })
}

// RestoreCNI puts back what an archive of CNI files holds, or of all archives what was one pod's.
func RestoreCNI(ctx context.Context, cfg config.Config, which string) (outs []cni.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		outs, err = r.RestoreCNI(ctx, which)
		return err
	})
	return outs, err
}

// RestoreBatch puts back what the archives of one sweep over CNI files hold.
func RestoreBatch(ctx context.Context, cfg config.Config, batch string) (outs []cni.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		outs, err = r.RestoreBatch(ctx, batch)
		return err
	})
	return outs, err
}

// DropArchive drops one archive of CNI files.
func DropArchive(ctx context.Context, cfg config.Config, name string) error {
	return byPerson(ctx, cfg, func(r *reaper.Reaper) error { return r.DropArchive(ctx, name) })
}
