package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/remove"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/account"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/person"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/quiet"
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
	return remove.ArchiveStore{Store: store}.Archives()
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
	if _, err := sameQuarantine(cfg, store); err != nil {
		return nil, err
	}
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

// Reported is what the state directory tells of a range of days.
type Reported struct {
	Account account.Account
	Entries []policy.EntryState       // what the ledger knows of the quarantine
	Told    map[parsers.PodUID]string // the last refusal that was told of each pod
	ToldAt  time.Time                 // when the look was that wrote Told down, zero where it is not known
}

// Report reads what was done on this node from a day on. It changes nothing and needs no daemon. A state
// directory that nobody has written to is an error.
func Report(_ context.Context, cfg config.Config, from, now time.Time) (Reported, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return Reported{}, err
	}
	defer closeQuietly(store)
	if store.New() {
		return Reported{}, exit.Failf("has the daemon run on this node? --state-dir names the directory where it is another",
			"no records in %s: no orphan-reaper has written to it", cfg.StateDir)
	}
	table, err := store.Days()
	if err != nil {
		return Reported{}, fmt.Errorf("cannot sum up the records: %w", err)
	}
	var heard quiet.Memory
	if _, err := store.Load("quiet", &heard); err != nil {
		return Reported{}, err
	}
	var memory decide.Memory
	if _, err := store.Load("holds", &memory); err != nil {
		return Reported{}, err
	}
	return Reported{account.Of(table, heard, from, now), policy.Listed(store.Entries()), memory.Told, memory.Looked.Wall}, nil
}

// Seen reports whether earlier looks have left holds, of pods or of CNI, which a daemon goes on with when it starts. For
// the daemon that runs, running, only those count that were there before its start. It reads only; what cannot be read
// may have some.
func Seen(cfg config.Config, running bool) bool {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return true
	}
	defer closeQuietly(store)
	before := time.Time{}
	if running {
		if _, before, err = store.Runner(); err != nil {
			return true
		}
	}
	return seen(store, before)
}

// seen is Seen, of what began before a time; zero is for any.
func seen(store *state.Store, before time.Time) bool {
	var m struct {
		decide.Memory
		CNI cni.Listings `json:"cni"`
	}
	if _, err := store.Load("holds", &m); err != nil {
		return true
	}
	counts := func(since policy.Instant) bool {
		return !since.Wall.IsZero() && (before.IsZero() || since.Wall.Before(before))
	}
	for _, h := range m.Holds {
		if counts(h.Since) {
			return true
		}
	}
	return counts(m.CNI.Older.Since)
}

// ArchivePath is where an archive of CNI files lies.
func ArchivePath(cfg config.Config, name string) string { return state.ArchivePath(cfg.StateDir, name) }
