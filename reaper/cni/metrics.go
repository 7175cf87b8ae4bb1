package cni

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Metrics counts the results of sweeps.
type Metrics struct {
	files, bytes, addresses *prometheus.GaugeVec
	taken, kept             *prometheus.CounterVec
	registry                Registry
}

// Registry creates metrics of the program; audit.Metrics implements it.
type Registry interface {
	Counters(name, help string, labels ...string) *prometheus.CounterVec
	Gauges(name, help string, labels ...string) *prometheus.GaugeVec
	Failure(operation string)
}

// states are the values of the label state.
var states = []string{Live, Dead, Waiting, Kept, Unreadable, OfOthers}

// NewMetrics adds the metrics to a registry.
func NewMetrics(r Registry) *Metrics {
	m := &Metrics{
		registry:  r,
		files:     r.Gauges("cni_files", "Files that CNI wrote, at the last sweep, by kind and state.", "kind", "state"),
		bytes:     r.Gauges("cni_bytes", "Bytes in files that CNI wrote, at the last sweep, by kind and state.", "kind", "state"),
		addresses: r.Gauges("cni_addresses", "Addresses that host-local has reserved, and those of them whose sandbox the runtime lists.", "network", "state"),
		taken:     r.Counters("cni_removed_files_total", "CNI files that were archived and removed.", "kind"),
		kept:      r.Counters("cni_kept_files_total", "CNI files that were kept, one sweep counting each file once for every reason.", "reason"),
	}
	for _, kind := range Kinds() {
		m.taken.WithLabelValues(string(kind))
		for _, state := range states {
			m.files.WithLabelValues(string(kind), state)
			m.bytes.WithLabelValues(string(kind), state)
		}
	}
	for _, r := range policy.Reasons() {
		m.kept.WithLabelValues(string(r))
	}
	return m
}

// CNI counts one sweep.
func (m *Metrics) CNI(c *Census) {
	for _, kind := range Kinds() {
		for _, state := range states {
			t := c.Files[kind][state]
			m.files.WithLabelValues(string(kind), state).Set(float64(t.Entries))
			m.bytes.WithLabelValues(string(kind), state).Set(float64(t.Bytes))
		}
		m.taken.WithLabelValues(string(kind)).Add(float64(c.Taken[kind].Entries))
	}
	for reason, n := range c.Reasons {
		m.kept.WithLabelValues(string(reason)).Add(float64(n))
	}
	m.addresses.Reset() // a network may no longer exist
	for _, n := range c.Networks() {
		m.addresses.WithLabelValues(n.Name, "reserved").Set(float64(n.Reserved))
		m.addresses.WithLabelValues(n.Name, "in_use").Set(float64(n.InUse))
	}
	for range c.Failed {
		m.registry.Failure("cni")
	}
}
