package main

import (
	"context"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
)

// deps are what the commands do to the node, each a function of cmd/internal/app that says
// there what it does. Tests give their own, so that a command's arguments, words and exit codes
// are tested without a node.
type deps struct {
	configFile string // that is read where no other is named

	pods         func(ctx context.Context, cfg config.Config, past bool) ([]app.Pod, error)
	survey       func(ctx context.Context, cfg config.Config, uids []parsers.PodUID) (reaper.Report, error)
	examine      func(ctx context.Context, cfg config.Config) (app.Examination, error)
	standing     func(ctx context.Context, cfg config.Config) diagnosis.Daemon
	sweep        func(ctx context.Context, cfg config.Config, version string, o app.SweepOptions) (reaper.Report, error)
	report       func(ctx context.Context, cfg config.Config, from, now time.Time) (app.Reported, error)
	list         func(ctx context.Context, cfg config.Config) ([]policy.EntryState, error)
	history      func(ctx context.Context, cfg config.Config, uid parsers.PodUID) ([]policy.Record, error)
	breaker      func(ctx context.Context, cfg config.Config) (*policy.Record, error)
	restore      func(ctx context.Context, cfg config.Config, uid parsers.PodUID, shown []policy.EntryState) (policy.Outcome, error)
	purge        func(ctx context.Context, cfg config.Config, shown []policy.EntryState, living bool) ([]policy.Outcome, error)
	resume       func(ctx context.Context, cfg config.Config) error
	forget       func(ctx context.Context, cfg config.Config, uids []parsers.PodUID) ([]parsers.PodUID, error)
	archives     func(ctx context.Context, cfg config.Config) ([]cni.ArchiveState, error)
	restoreCNI   func(ctx context.Context, cfg config.Config, which string) (cni.Restored, error)
	restoreBatch func(ctx context.Context, cfg config.Config, batch string) (cni.Restored, error)
	dropArchive  func(ctx context.Context, cfg config.Config, name string) error
	discover     func(ctx context.Context) (dir, origin string, ok bool)
	rootThere    func(cfg config.Config) error
	nameThere    func(cfg config.Config, name string) bool
	seen         func(cfg config.Config, running bool) bool
	agrees       func(ctx context.Context, cfg config.Config) policy.Fact
	nodeName     func(cfg config.Config) string
	now          func() policy.Instant
}

// realDeps are the node's, for the person who gives the command.
func realDeps(person app.Person) deps {
	return deps{
		configFile: config.DefaultFile,
		pods:       app.PodsHere, survey: app.Survey, examine: app.Examine, standing: app.Standing, report: app.Report, list: app.ListQuarantine,
		history: app.History, breaker: app.Breaker,
		sweep: person.Sweep, restore: person.Restore, purge: person.Purge, resume: person.Resume, forget: person.Forget,
		archives: app.ListArchives, restoreCNI: person.RestoreCNI, restoreBatch: person.RestoreBatch, dropArchive: person.DropArchive,
		discover: app.DiscoverRoot, rootThere: app.RootThere, seen: app.Seen, nameThere: app.NameThere, agrees: app.Agrees,
		nodeName: app.NodeName, now: app.Now,
	}
}
