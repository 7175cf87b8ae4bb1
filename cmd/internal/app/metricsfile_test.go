package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			m.Flush()
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
		m.Flush()
	}
	if got := strings.Count(log.String(), "cannot write the metrics file"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the directory was made")
	}
	testkit.Must(t, os.Mkdir(filepath.Dir(path), 0o755))
	if m.Flush(); !strings.Contains(log.String(), "metrics are written") {
		t.Errorf("not written after the directory appeared: %s", log.String())
	}
}

// TestMetricsFileHangs checks that a file system that does not answer holds up one pass for some seconds, is logged once, and
// that the file is written again once it answers.
func TestMetricsFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := config.Config{MetricsFile: "/metrics/x.prom"}
		m := newMetricsFile(t.Context(), cfg, "v0", slog.New(slog.NewTextHandler(&log, nil)), slog.LevelDebug)
		answers, written := make(chan struct{}), 0
		m.write = func(string) error { <-answers; written++; return nil }
		began := time.Now()
		for range 3 {
			m.Flush()
		}
		m.Remove()
		if took := time.Since(began); took > time.Minute || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), cfg.MetricsFile) {
			t.Errorf("after %s: %s", took, log.String())
		}
		close(answers)
		synctest.Wait()
		if m.Flush(); written != 2 {
			t.Errorf("written %d times, want the late one and another", written)
		}
	})
}
