package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/remove"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// Quarantine is the content of the quarantine, by the ledger and by the disk.
type Quarantine struct {
	// Entries are those of the ledger, also if they are gone, and other directories in quarantine, sorted by name.
	Entries  []policy.EntryState
	Archives []cni.ArchiveState // of CNI files, the oldest first
	Unread   error              // why not all is listed
	Breaker  *policy.Record     // the record that stopped enforcing, nil if the breaker is closed
}

// ReadQuarantine reads the quarantine.
func ReadQuarantine(cfg config.Config) (Quarantine, error) {
	return reading(cfg, func(s *state.Store) (q Quarantine, err error) {
		if _, err := sameQuarantine(cfg, s); err != nil {
			return q, err
		}
		rem, err := removal.Open(removal.Config{PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir})
		if err != nil {
			return q, err
		}
		for _, e := range s.Entries() {
			q.Entries = append(q.Entries, *e)
		}
		q.Unread = (&reaper.Reaper{Remover: rem, Ledger: s, Store: s}).ReadQuarantine()
		more, _ := unlisted(rem, s) // Unread has the error
		q.Entries = append(q.Entries, more...)
		slices.SortFunc(q.Entries, func(a, b policy.EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
		if r, open := s.Breaker(); open {
			q.Breaker = &r
		}
		if q.Archives, err = (remove.ArchiveStore{Store: s}).Archives(); err != nil {
			q.Unread = errors.Join(q.Unread, fmt.Errorf("cannot list the archives: %w", err))
		}
		return q, nil
	})
}

// unlisted returns the directories in quarantine that the ledger does not have.
func unlisted(quarantine interface{ List() ([]string, error) }, s *state.Store) ([]policy.EntryState, error) {
	names, err := quarantine.List()
	if err == nil {
		err = s.Refresh() // a daemon may have moved some there meanwhile
	}
	if err != nil {
		return nil, err
	}
	return decide.Unlisted(names, s.Entries()), nil
}

// History returns the ledger's records of one pod, the oldest first.
func History(cfg config.Config, uid parsers.PodUID) ([]policy.Record, error) {
	return reading(cfg, func(s *state.Store) ([]policy.Record, error) { return s.History(uid) })
}

// LastOutcome returns the last record of an entry of the pod, the zero value if there is none.
func LastOutcome(cfg config.Config, uid parsers.PodUID) (policy.Record, error) {
	all, err := History(cfg, uid)
	if err != nil {
		return policy.Record{}, fmt.Errorf("cannot read what became of %s: %w", uid, err)
	}
	for _, r := range slices.Backward(all) {
		if r.Entry != "" {
			return r, nil
		}
	}
	return policy.Record{}, nil
}

// quarantined is the saved path of the quarantine with the ledger's entries.
type quarantined struct {
	Dir string `json:"dir"`
}

// sameQuarantine returns an error if the ledger's entries are in another quarantine than the configured one.
func sameQuarantine(cfg config.Config, store *state.Store) (was quarantined, err error) {
	if _, err := store.Load("quarantine", &was); err != nil {
		return was, err
	}
	same := was.Dir == "" || was.Dir == cfg.QuarantineDir || sameDir(was.Dir, cfg.QuarantineDir)
	present := func(e *policy.EntryState) bool { return !e.Phase.Over() }
	if same || !slices.ContainsFunc(slices.Collect(maps.Values(store.Entries())), present) {
		return was, nil
	}
	by := "quarantine_dir: " + cfg.Source("quarantine_dir")
	if !cfg.Named("quarantine_dir") {
		by = "root directory: " + cfg.Source("root_dir")
	}
	return was, exit.Failf("set --quarantine-dir "+was.Dir+", or --root-dir to what it was; to change it, first restore or purge what lies there, or use "+
		"another --state-dir",
		"the quarantine is now %s (%s), and the entries of the ledger lie in %s", cfg.QuarantineDir, by, was.Dir)
}

// lockQuarantine is sameQuarantine for the daemon or a sweep: it also acquires their lock and saves the quarantine's path.
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
	hint := "a daemon runs here, and in mode enforce does what sweep does; stop it first: systemctl stop orphan-reaper"
	if d := findDaemon(ctx, cfg, store); d.Runs == policy.No {
		hint = "a sweep is at work, and ends by itself: try again then"
	}
	return nil, exit.Failf(hint, "%w", err)
}
