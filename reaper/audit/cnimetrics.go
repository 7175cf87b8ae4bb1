package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cniMetrics counts what sweeps over the CNI directories find and do.
type cniMetrics struct {
	files, bytes, addresses *prometheus.GaugeVec
	taken, kept             *prometheus.CounterVec
}

// The labels' values, all of them but the networks' names, which policy bounds.
var (
	cniKinds  = []cni.Kind{cni.Cache, cni.Multus, cni.Flannel, cni.Address}
	cniStates = []string{
		cni.Live, cni.Dead, cni.Waiting, cni.Kept, cni.Unreadable, cni.OfOthers,
	}
)

func newCNIMetrics(
	counters func(name, help string, labels ...string) *prometheus.CounterVec,
	gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
) cniMetrics {
	c := cniMetrics{
		files:     gauges("cni_files", "Files that CNI wrote, at the last sweep over them, by kind and state.", "kind", "state"),
		bytes:     gauges("cni_bytes", "Bytes in files that CNI wrote, at the last sweep over them, by kind and state.", "kind", "state"),
		addresses: gauges("cni_addresses", "Addresses that host-local has reserved, and those of them whose sandbox the runtime lists.", "network", "state"),
		taken:     counters("cni_removed_files_total", "Files that CNI had left, archived and removed.", "kind"),
		kept:      counters("cni_kept_files_total", "Files that CNI had left and that were kept, one sweep counting each file once for every reason.", "reason"),
	}
	for _, kind := range cniKinds {
		c.taken.WithLabelValues(string(kind))
		for _, state := range cniStates {
			c.files.WithLabelValues(string(kind), state)
			c.bytes.WithLabelValues(string(kind), state)
		}
	}
	for _, r := range policy.Reasons() {
		c.kept.WithLabelValues(string(r))
	}
	return c
}

// CNI takes in one sweep over the CNI directories.
func (m *Metrics) CNI(census cni.Census) {
	for _, kind := range cniKinds {
		for _, state := range cniStates {
			t := census.Files[kind][state]
			m.cni.files.WithLabelValues(string(kind), state).Set(float64(t.Entries))
			m.cni.bytes.WithLabelValues(string(kind), state).Set(float64(t.Bytes))
		}
		m.cni.taken.WithLabelValues(string(kind)).Add(float64(census.Taken[kind].Entries))
	}
	for reason, n := range census.Reasons {
		m.cni.kept.WithLabelValues(string(reason)).Add(float64(n))
	}
	m.cni.addresses.Reset() // a network may be gone
	for _, n := range census.Networks() {
		m.cni.addresses.WithLabelValues(n.Name, "reserved").Set(float64(n.Reserved))
		m.cni.addresses.WithLabelValues(n.Name, "in_use").Set(float64(n.InUse))
	}
	for range census.Failed {
		m.Failure(OpCNI)
	}
}
