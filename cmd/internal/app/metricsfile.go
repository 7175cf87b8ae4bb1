package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

// metricsName is the file's name in the node exporter's directory.
const metricsName = "orphan-reaper.prom"

// textfileDirs are the node exporter's usual directories of textfiles: of Debian and Fedora, then of its own examples,
// roles and charts.
var textfileDirs = []string{
	"/var/lib/prometheus/node-exporter",
	"/var/lib/node_exporter/textfile_collector",
	"/var/lib/node-exporter/textfile_collector",
	"/var/lib/prometheus/node_exporter",
	"/var/lib/node_exporter/textfile",
	"/var/lib/node_exporter",
	"/var/lib/node-exporter",
}

// metricsFile writes the metrics to their file. An error is only logged, once and again when it changes.
type metricsFile struct {
	*audit.Metrics
	cni *cni.Metrics

	ctx  context.Context //nolint:containedctx // the Meter's Flush has none, and the log's handler wants one
	log  *slog.Logger
	good slog.Level // at which success is logged
	dirs []string   // the first that exists gets the file; nil if the path is set

	mu     sync.Mutex
	path   string // "" for nowhere
	logged string
}

// newMetricsFile returns the metrics with the file of --metrics-file.
func newMetricsFile(ctx context.Context, cfg config.Config, version string, log *slog.Logger, good slog.Level) *metricsFile {
	m := &metricsFile{Metrics: audit.NewMetrics(version), ctx: ctx, log: log, good: good}
	m.cni = cni.NewMetrics(m.Metrics)
	m.Enforcing(!cfg.Observe())
	switch cfg.MetricsFile {
	case config.None:
	case config.Auto:
		if cfg.OtherNodeRoot() {
			break // this machine's node exporter is not that node's
		}
		m.dirs = textfileDirs
	default:
		m.path = cfg.MetricsFile
	}
	return m
}

// CNI counts one sweep over CNI's files.
func (m *metricsFile) CNI(c *cni.Census) { m.cni.CNI(c) }

// Flush writes all metrics to the file. It looks for the directory each time: a node exporter may be installed or removed
// later.
func (m *metricsFile) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs != nil {
		m.search()
	}
	if m.path == "" {
		return nil
	}
	if err := m.WriteFile(m.path); err != nil {
		if m.changed(err.Error()) {
			m.log.ErrorContext(m.ctx, "cannot write the metrics file; this is logged once", slog.Any("error", err))
		}
		return nil
	}
	if m.changed("to " + m.path) {
		m.log.Log(m.ctx, m.good, "metrics are written", slog.String("path", m.path))
	}
	return nil
}

// search looks for the directory again, and removes the file from an earlier one.
func (m *metricsFile) search() {
	before := m.path
	m.path = metricsIn("/", m.dirs)
	if before != "" && before != m.path {
		_ = audit.RemoveFile(before) // mostly its directory is gone
	}
	if m.path == "" && m.changed("nowhere") {
		m.log.Log(m.ctx, m.good, "no metrics are written: there is no directory of a node exporter's textfile collector; --metrics-file names one")
	}
}

// metricsIn returns the file in the first of the directories that exists, "" for none.
func metricsIn(root string, dirs []string) string {
	for _, dir := range dirs {
		dir = filepath.Join(root, dir)
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return filepath.Join(dir, metricsName)
		}
	}
	return ""
}

// changed reports whether a message differs from the last one.
func (m *metricsFile) changed(what string) bool {
	before := m.logged
	m.logged = what
	return before != what
}

// Remove removes the file.
func (m *metricsFile) Remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" {
		return
	}
	if err := audit.RemoveFile(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("metrics that are no longer updated stay in the file", slog.Any("error", err))
	}
}
