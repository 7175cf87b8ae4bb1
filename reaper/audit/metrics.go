package audit

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Prefix begins the name of every metric.
const Prefix = "orphan_reaper_"

// Metrics has the last status and the daemon's counters: reaper.Meter, and a collector of client_golang. Counters begin at 0
// with each start, which Prometheus treats as a reset. Its methods only copy values, and may be called from several
// goroutines.
type Metrics struct {
	// Changed is called after each status. It must not block. nil calls nothing.
	Changed func()

	descs []*prometheus.Desc // of MetricTable, in its order
	mu    sync.Mutex
	view  view
}

// NewMetrics returns the metrics of the given version of the program.
func NewMetrics(version string) *Metrics {
	m := &Metrics{view: view{version: bounded.Text(version), events: map[judge.EventKind]float64{}, bytes: map[string]float64{}}}
	for _, row := range MetricTable {
		m.descs = append(m.descs, prometheus.NewDesc(Prefix+row.Name, row.Help, strings.Fields(row.Labels), nil))
	}
	return m
}

// Registry returns a registry with these metrics alone, for /metrics and the textfile.
func (m *Metrics) Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	return r
}

// Status sets what one pass found.
func (m *Metrics) Status(s reaper.Status, took time.Duration) {
	m.mu.Lock()
	m.view.Status, m.view.took, m.view.scanned = s, took, true
	for _, p := range s.Pods {
		if p.LastReport.After(m.view.lastReport) {
			m.view.lastReport = p.LastReport
		}
	}
	m.mu.Unlock()
	if m.Changed != nil {
		m.Changed()
	}
}

// Hangs sets whether a call that changes the disk has not returned.
func (m *Metrics) Hangs(hangs bool) {
	m.mu.Lock()
	m.view.hangs = hangs
	m.mu.Unlock()
	if m.Changed != nil {
		m.Changed()
	}
}

// Event counts one event of the ledger.
func (m *Metrics) Event(e judge.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.events[e.Kind]++
	for class, t := range e.Taken {
		if e.Kind == judge.EventCNIRemoved {
			m.view.cniRemoved += float64(t.Entries)
		} else {
			m.view.bytes[class] += float64(t.Bytes)
		}
	}
}

// Line counts one line of the kubelet's log.
func (m *Metrics) Line() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.lines++
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	v := m.view // the loop changes nothing of a status that it has returned
	v.events, v.bytes = maps.Clone(v.events), maps.Clone(v.bytes)
	m.mu.Unlock()
	for i, row := range MetricTable {
		row.collect(v, func(value float64, labels ...string) {
			for i := range labels {
				labels[i] = bounded.Text(labels[i])
			}
			out <- prometheus.MustNewConstMetric(m.descs[i], row.Type, value, labels...)
		})
	}
}
