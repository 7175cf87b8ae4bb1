package wire

import (
	"cmp"
	"context"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/person"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// ListArchives lists the archives of CNI files, the oldest first.
func ListArchives(_ context.Context, cfg config.Config) ([]cni.ArchiveState, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	return cniArchive{store}.Archives()
}

// History returns what the ledger still has of one pod, the oldest first.
func History(_ context.Context, cfg config.Config, uid parsers.PodUID) ([]policy.Record, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	return store.History(uid)
}

// Breaker returns the record that stopped enforcing, nil where it goes on.
func Breaker(_ context.Context, cfg config.Config) (*policy.Record, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	if r, open := store.Breaker(); open {
		return &r, nil
	}
	return nil, nil // that it goes on is an answer, not an error
}

// ListQuarantine returns what the ledger has of the quarantine's entries, sorted by Entry, and
// what lies there beside; entries that are gone may be among them.
func ListQuarantine(_ context.Context, cfg config.Config) ([]policy.EntryState, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	known := store.Entries()
	var entries []policy.EntryState
	for _, e := range known {
		entries = append(entries, *e)
	}
	rem, err := removal.Open(removal.Config{PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir})
	if err != nil {
		return nil, err
	}
	// Who may not read the quarantine is shown what the ledger knows.
	if names, err := rem.List(); err == nil {
		entries = append(entries, person.Unlisted(names, known)...)
	}
	slices.SortFunc(entries, func(a, b policy.EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
	return entries, nil
}
