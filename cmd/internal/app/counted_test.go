package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var errBroken = errors.New("broken")

// broken is a room in which nothing works.
type broken struct {
	reaper.Prober
	reaper.Ledger
}

func (broken) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, errBroken
}

func (broken) Append(...policy.Record) ([]policy.Record, error) { return nil, errBroken }
func (broken) Record(policy.Record) error                       { return errBroken }

// TestCountFailures: what fails in the loop is counted, and a look that failed is in the file at
// once, since no look that succeeds may ever write it.
func TestCountFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.prom")
	m := newMetricsFile(t.Context(), config.Config{MetricsFile: path}, "v0", slog.New(slog.DiscardHandler), slog.LevelInfo)
	r := watched{broken{}, broken{}, broken{}, config.Config{}, m}
	for range 2 {
		if _, err := r.Append(); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}
	for range 2 {
		if err := r.Record(policy.Record{}); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}
	if _, err := r.Look(t.Context(), nil, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	for _, want := range []string{`{operation="ledger"} 2`, `{operation="journal"} 2`, `{operation="look"} 1`} {
		if !strings.Contains(string(text), "orphan_reaper_failures_total"+want) {
			t.Errorf("%s is not in the file", want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := r.Look(ended, nil, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	testkit.Must(t, m.Flush())
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `{operation="look"} 1`) {
		t.Errorf("a look that was cut off by a stop counts as failed: %v", err)
	}
}
