package app

import (
	"io"
	"log/slog"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// logsToJournal reports whether the log goes to the journal. auto is the journal if systemd has connected stderr to it
// (systemd.exec(5), $JOURNAL_STREAM).
func logsToJournal(cfg config.Config) bool {
	if cfg.LogFormat == config.Auto {
		ok, err := journal.StderrIsJournalStream()
		return err == nil && ok
	}
	return cfg.LogFormat == "journal"
}

func logLevel(cfg config.Config) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// newLogger returns the logger. A daemon changes the level at run time.
func newLogger(cfg config.Config, stderr io.Writer, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(stderr, opts)
	switch {
	case cfg.LogFormat == "json":
		h = slog.NewJSONHandler(stderr, opts)
	case logsToJournal(cfg):
		h = audit.NewHandler(level, h)
	}
	return slog.New(h)
}

// newRecorder returns a recorder that writes to the journal, or to fallback if there is none.
func newRecorder(cfg config.Config, fallback io.Writer, level slog.Leveler, commands func(string) string) *audit.Journal {
	format := audit.FormatText
	if cfg.LogFormat == "json" {
		format = audit.FormatJSON
	}
	return audit.NewJournal(audit.JournalOptions{
		Fallback: fallback, Format: format, Level: level, Commands: commands,
		NoJournal: cfg.LogFormat == "text" || cfg.LogFormat == "json" || (cfg.LogFormat == config.Auto && cfg.OtherNodeRoot()),
	})
}

type silent struct{}

func (silent) Record(policy.Record) error { return nil }
