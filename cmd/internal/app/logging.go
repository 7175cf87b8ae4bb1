package app

import (
	"io"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// underJournal reports whether our log should go to the journal itself: systemd runs us with
// stderr connected to it (systemd.exec(5), $JOURNAL_STREAM).
func underJournal(cfg config.Config) bool {
	if cfg.LogFormat == config.Auto {
		ok, err := journal.StderrIsJournalStream()
		return err == nil && ok
	}
	return cfg.LogFormat == "journal"
}

// logLevel is the least that is logged.
func logLevel(cfg config.Config) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// newLogger makes the log; a daemon changes the level while it runs.
func newLogger(cfg config.Config, stderr io.Writer, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(stderr, opts)
	switch {
	case cfg.LogFormat == "json":
		h = slog.NewJSONHandler(stderr, opts)
	case underJournal(cfg):
		h = audit.NewHandler(level, h)
	}
	return slog.New(h)
}

// newRecorder returns where records go: the journal where there is one, else to stderr, there as show
// writes them where that is not nil.
func newRecorder(cfg config.Config, fallback io.Writer, show func(policy.Record) error, level slog.Leveler) *audit.Journal {
	format := audit.FormatText
	if cfg.LogFormat == "json" {
		format = audit.FormatJSON
	}
	return audit.NewJournal(audit.JournalOptions{
		Fallback: fallback, Format: format, Show: show, Level: level,
		NoJournal: cfg.LogFormat == "text" || cfg.LogFormat == "json" || (cfg.LogFormat == config.Auto && cfg.OtherNodeRoot()),
	})
}

// silent tells nobody and counts nothing.
type silent struct{}

func (silent) Success(policy.Instant)                            {}
func (silent) Record(policy.Record) error                        { return nil }
func (silent) Sighting(parsers.Report)                           {}
func (silent) Look(policy.Look, []policy.Verdict, time.Duration) {}
func (silent) Outcome(policy.Outcome)                            {}
func (silent) Quarantine(map[string]*policy.EntryState)          {}
func (silent) Breaker(bool)                                      {}
func (silent) CNI(*cni.Census)                                   {}
func (silent) Quiet(int64)                                       {}
func (silent) Slow()                                             {}
func (silent) Flush() error                                      { return nil }
