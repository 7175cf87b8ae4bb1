package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMetricsFileFollows checks a directory that appears after the start, moves and disappears: each change is logged
// once and does not end the daemon.
func TestMetricsFileFollows(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	m := newMetricsFile(t.Context(), config.Config{MetricsFile: config.None}, "v0", slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
	m.dirs = []string{two, one}
	flush := func(times int, printed string) {
		t.Helper()
		log.Reset()
		for range times {
			testkit.Must(t, m.Flush())
		}
		if got := strings.Count(log.String(), "\n"); printed == "" && got != 0 || printed != "" && (got != 1 || !strings.Contains(log.String(), printed)) {
			t.Errorf("want %q, once, logged:\n%s", printed, log.String())
		}
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	flush(3, "no metrics are written")
	mkdir := func(path string) {
		testkit.Must(t, os.Mkdir(path, 0o755))
	}
	mkdir(one)
	flush(3, "metrics are written")
	// A package with precedence is installed: the other file would become stale.
	mkdir(two)
	flush(3, filepath.Join(two, metricsName))
	if there(filepath.Join(one, metricsName)) || !there(filepath.Join(two, metricsName)) {
		t.Error("the file did not move")
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	m.dirs = append(m.dirs, filepath.Join(dir, "file"))
	flush(3, "")
	testkit.Must(t, errors.Join(os.RemoveAll(one), os.RemoveAll(two)))
	flush(3, "no metrics are written")
	m.Remove()
}

// TestMetricsFileMissing checks that a missing configured directory is logged once.
func TestMetricsFileMissing(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "later", "x.prom")
	m := newMetricsFile(t.Context(), config.Config{MetricsFile: path}, "v0", slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
	for range 3 {
		testkit.Must(t, m.Flush())
	}
	if got := strings.Count(log.String(), "cannot write the metrics file"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the directory was made")
	}
	testkit.Must(t, os.Mkdir(filepath.Dir(path), 0o755))
	if err := m.Flush(); err != nil || !strings.Contains(log.String(), "metrics are written") {
		t.Errorf("not written after the directory appeared: %v, %s", err, log.String())
	}
}
