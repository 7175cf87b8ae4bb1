package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// newSources returns the sources of the configuration. auto is the journal if journald runs and keeps one, since the usual
// files have the same lines without the trusted fields, and a file that is the kubelet's standard error.
func newSources(ctx context.Context, cfg config.Config, units *source.Units, log *slog.Logger) []source.Source {
	wants := func(name string) bool { return slices.Contains(cfg.LogSources, name) }
	here := wants(config.Auto) && !cfg.OtherNodeRoot()
	journald := wants("journald")
	var ctl source.Journalctl
	if journald || here && source.JournaldRuns() {
		var err error
		if ctl, err = source.FindJournalctl(); err != nil {
			log.WarnContext(ctx, "the journal cannot be read", slog.Any("error", err))
		}
		journald = journald || err == nil
	}
	kept := journald && (!here || source.JournalKept(ctl.Dirs()...))
	if journald && !kept {
		log.WarnContext(ctx, "journald keeps no journal (Storage= in journald.conf): the usual log files are followed, too")
	}
	var all []source.Source
	if journald {
		all = append(all, newJournal(cfg, ctl, units, log))
	}
	later := laterFiles(ctx, cfg, &bounded.Guard{})
	for _, path := range source.LogFiles(cfg.LogSources, cfg.LogFiles, kept, filepath.Join(cfg.NodeRoot, source.RKE2Log), later...) {
		all = append(all, source.NewFile(path, time.Now, log))
	}
	return all
}

// relook is how often the daemon looks for other files to follow: a restarted kubelet may write elsewhere, and journald may
// stop keeping a journal.
const relook = 10 * time.Minute

// laterFiles returns the files to follow beside the journal: the standard error of kubelets, and the usual files that are
// written while the journal is not. Their file system may hang, which costs one thread if each call has the same guard.
func laterFiles(ctx context.Context, cfg config.Config, guard *bounded.Guard) []string {
	if !slices.Contains(cfg.LogSources, config.Auto) || cfg.OtherNodeRoot() || cfg.Waive() {
		return nil
	}
	usual, err := bounded.Do(ctx, guard, "log files", func() []string {
		ctl, err := source.FindJournalctl()
		if err != nil {
			ctl = source.Journalctl{} // the journal may exist without journalctl
		}
		return source.WrittenAfterJournal(ctl.Dirs(), cfg.LogFiles)
	})
	if err != nil {
		usual = nil
	}
	return append(kubelet.Logs(ctx, procDir), usual...)
}

func newJournal(cfg config.Config, ctl source.Journalctl, units *source.Units, log *slog.Logger) *source.Journal {
	return source.NewJournal(source.JournalOptions{Logger: log, Now: time.Now, Units: cfg.JournalUnits, More: units.Find, Journalctl: ctl})
}

// newUnits returns the units in which kubelets run. If the operator has named units, it looks for no others.
func newUnits(cfg config.Config, log *slog.Logger) *source.Units {
	if cfg.Named("journal_units") || cfg.Waive() {
		return source.NewUnits(nil, log)
	}
	return source.NewUnits(func(ctx context.Context) []string { return kubelet.Units(ctx, procDir) }, log)
}

// newParse returns the parser of the lines of all sources.
func newParse(cfg config.Config, units *source.Units) func(parsers.Line) (parsers.Sighting, bool) {
	p := parsers.Parser{RunsKubelet: units.RunsKubelet, Hints: true}
	if cfg.Named("journal_units") {
		p.Units = cfg.JournalUnits
	}
	return p.Parse
}

// countLines returns parse with a count of the lines of each source.
func countLines(
	meter func(source string, up bool, lastLine time.Time), parse func(parsers.Line) (parsers.Sighting, bool),
) func(parsers.Line) (parsers.Sighting, bool) {
	return func(l parsers.Line) (parsers.Sighting, bool) {
		meter(l.Source, true, time.Now())
		return parse(l)
	}
}

// saveCheckpoints saves the positions in the logs.
func saveCheckpoints(store *state.Store, at source.Checkpoints, log *slog.Logger) {
	if err := store.Save("checkpoints", at); err != nil {
		log.Error("cannot save how far the logs were read; they are read again after a restart", slog.Any("error", err))
	}
}
