package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
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

	guard bounded.Guard // with one key: Flush and Remove run one at a time
	hangs atomic.Bool   // the last one has not ended
	named string        // as the user named the file
	write func(path string) error

	path   string // "" for nowhere
	logged string
}

// newMetricsFile returns the metrics with the file of --metrics-file.
func newMetricsFile(ctx context.Context, cfg config.Config, version string, log *slog.Logger, good slog.Level) *metricsFile {
	m := &metricsFile{Metrics: audit.NewMetrics(version), ctx: context.WithoutCancel(ctx), log: log, good: good, named: cfg.MetricsFile}
	m.write = m.WriteFile
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

// Flush writes all metrics to the file. It waits for the file system some seconds, and then not again until that has
// answered: metrics must not hold up a pass.
func (m *metricsFile) Flush() { m.inTurn(m.flush) }

func (m *metricsFile) inTurn(work func()) {
	for began := time.Now(); time.Since(began) < m.guard.Limit(); time.Sleep(10 * time.Millisecond) { // while another writes it
		_, err := bounded.Do(m.ctx, &m.guard, "", func() struct{} { work(); return struct{}{} })
		switch {
		case err == nil:
			m.hangs.Store(false)
			return
		case errors.Is(err, bounded.ErrHangs):
			m.hangs.Store(true)
			m.log.ErrorContext(m.ctx, "the file system of the metrics file does not answer; it is written again once it does",
				slog.String("path", m.named))
			return
		case m.hangs.Load():
			return
		}
	}
}

// flush looks for the directory each time: a node exporter may be installed or removed later.
func (m *metricsFile) flush() {
	if m.dirs != nil {
		m.search()
	}
	if m.path == "" {
		return
	}
	if err := m.write(m.path); err != nil {
		if m.changed(err.Error()) {
			m.log.ErrorContext(m.ctx, "cannot write the metrics file; this is logged once", slog.Any("error", err))
		}
	} else if m.changed("to " + m.path) {
		m.log.Log(m.ctx, m.good, "metrics are written", slog.String("path", m.path))
	}
}

// search looks for the directory again, and removes the file from an earlier one.
func (m *metricsFile) search() {
	before := m.path
	m.path = metricsIn(m.dirs)
	if before != "" && before != m.path {
		_ = audit.RemoveFile(before) // mostly its directory is gone
	}
	if m.path == "" && m.changed("nowhere") {
		m.log.Log(m.ctx, m.good, "no metrics are written: there is no directory of a node exporter's textfile collector; --metrics-file names one")
	}
}

// metricsIn returns the file in the first of the directories that exists, "" for none.
func metricsIn(dirs []string) string {
	for _, dir := range dirs {
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
func (m *metricsFile) Remove() { m.inTurn(m.remove) }

func (m *metricsFile) remove() {
	if m.path == "" {
		return
	}
	if err := audit.RemoveFile(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("metrics that are no longer updated stay in the file", slog.Any("error", err))
	}
}
