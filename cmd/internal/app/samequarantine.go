package app

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// quarantined is the quarantine of the ledger's entries.
type quarantined struct {
	Dir string `json:"dir"`
}

// sameQuarantine fails if the ledger's entries are in another quarantine than the configured one.
func sameQuarantine(cfg config.Config, store *state.Store) (was quarantined, err error) {
	if _, err := store.Load("quarantine", &was); err != nil {
		return was, err
	}
	same := was.Dir == "" || was.Dir == cfg.QuarantineDir || sameDir(was.Dir, cfg.QuarantineDir)
	lies := func(e *policy.EntryState) bool { return !e.Phase.Over() }
	if same || !slices.ContainsFunc(slices.Collect(maps.Values(store.Entries())), lies) {
		return was, nil
	}
	return was, exit.Failf("set --quarantine-dir "+was.Dir+", or --root-dir to what it was; to change it, first restore or purge what lies there, or use "+
		"another --state-dir",
		"the quarantine is now %s (root directory: %s), and the entries of the ledger lie in %s", cfg.QuarantineDir, cfg.Source("root_dir"), was.Dir)
}

// lockQuarantine does the same for the daemon or a sweep, acquires their lock, and saves the quarantine's
// identity.
func lockQuarantine(ctx context.Context, cfg config.Config, store *state.Store) (release func(), err error) {
	release, err = lockRun(ctx, cfg, store)
	if err != nil {
		return nil, err
	}
	was, err := sameQuarantine(cfg, store)
	if err == nil && was.Dir != cfg.QuarantineDir { // only if it changed: the daemon must start on a full disk
		err = store.Save("quarantine", quarantined{cfg.QuarantineDir})
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// lockRun acquires the lock of the daemon and the sweep.
func lockRun(ctx context.Context, cfg config.Config, store *state.Store) (release func(), err error) {
	release, err = store.LockRun()
	if err == nil {
		return release, nil
	}
	hint := "the daemon does by itself what sweep does: systemctl status orphan-reaper"
	if d := standing(ctx, cfg, store); d.Runs == policy.No {
		hint = "a sweep is at work, and ends by itself: try again then"
	}
	return nil, exit.Failf(hint, "%w", err)
}
