package main

import (
	"context"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// surveyor takes one look and judges it; it changes nothing. No UIDs means all.
type surveyor func(ctx context.Context, cfg Config, uids []parsers.PodUID) (reaper.Report, error)

// lister returns what the ledger knows of the quarantine's entries, sorted by Entry;
// entries that are gone may be among them.
type lister func(ctx context.Context, cfg Config) ([]policy.EntryState, error)

// historian returns what the ledger still has of one pod, the oldest first.
type historian func(ctx context.Context, cfg Config, uid parsers.PodUID) ([]policy.Record, error)

// restorer puts a pod directory back by a person's word.
type restorer func(ctx context.Context, cfg Config, uid parsers.PodUID) (policy.Outcome, error)

// purger removes for ever, by a person's word, what lies in quarantine of these pods; of those
// that live again only with living.
type purger func(ctx context.Context, cfg Config, uids []parsers.PodUID, living bool) ([]policy.Outcome, error)

// resumer closes the breaker.
type resumer func(ctx context.Context, cfg Config) error

// agreer says whether what was set agrees with the kubelet that runs here.
type agreer func(ctx context.Context, cfg Config) policy.Fact

// deps are what the commands do to the node. The real ones are in wire.go; tests give
// their own, so that a command's arguments, words and exit codes are tested without one.
type deps struct {
	configFile string // that is read where no other is named

	survey  surveyor
	list    lister
	history historian
	// breaker returns the record that stopped enforcing, nil where it goes on.
	breaker func(ctx context.Context, cfg Config) (*policy.Record, error)
	restore restorer
	purge   purger
	resume  resumer
	// archives lists the archives of CNI files, the oldest first; restoreCNI puts back what
	// one of them holds, or of all of them what was one pod's, and restoreBatch what those of
	// one sweep hold; dropArchive drops one.
	archives     func(ctx context.Context, cfg Config) ([]cni.ArchiveState, error)
	restoreCNI   func(ctx context.Context, cfg Config, which string) ([]cni.Outcome, error)
	restoreBatch func(ctx context.Context, cfg Config, batch string) ([]cni.Outcome, error)
	dropArchive  func(ctx context.Context, cfg Config, name string) error
	// discover is config.Input's.
	discover func(ctx context.Context) (dir, origin string, ok bool)
	agrees   agreer
	now      func() policy.Instant
}

func realDeps() deps {
	return deps{
		configFile: defaultConfigFile,
		survey:     survey, list: listQuarantine, history: history, breaker: breaker, restore: restore, purge: purge, resume: resume,
		archives: listArchives, restoreCNI: restoreCNI, restoreBatch: restoreBatch, dropArchive: dropArchive,
		discover: discoverRoot, agrees: agrees, now: now,
	}
}
