package audit

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// namespace begins the name of every metric.
const namespace = "orphan_reaper"

// reasonNone is the label of a verdict without a reason: Prometheus treats an empty label as missing.
const reasonNone = "none"

// The operations of orphan_reaper_failures_total besides the kinds of actions.
const (
	OpLook    = "look"    // a look failed
	OpLedger  = "ledger"  // the ledger could not be written
	OpJournal = "journal" // a record could not be shown
	OpMetrics = "metrics" // the metrics file could not be written
	OpCNI     = "cni"     // a file of CNI could not be archived or removed
)

// Metrics has the daemon's counters and gauges. A new counter needs a line in NewMetrics and a method, a new gauge a
// row in lookGauges or quarantineGauges. The counters begin at 0 with each process, which Prometheus treats as a reset.
// Every series with known labels exists from the start, so that its first increase is visible. The methods may be
// called from several goroutines.
type Metrics struct {
	registry *prometheus.Registry

	sightings, verdicts, removedEntries, removedBytes, failures *prometheus.CounterVec
	parked, cleared, reaped, putBack, quietLines, slow          prometheus.Counter
	breaker, enforcing, lastSuccess                             prometheus.Gauge
	sourceUp, sourceLastLine                                    *prometheus.GaugeVec // no series before the first value

	mu         sync.Mutex // guards the gauges below
	look       []*gauge[looked]
	quarantine []*gauge[map[string]*policy.EntryState]
}

// The labels' values.
var (
	reports = []parsers.Report{
		parsers.ReportPathsPresent, parsers.ReportSubpathsPresent, parsers.ReportNotADirectory,
		parsers.ReportRmdirNotEmpty, parsers.ReportReadError, parsers.ReportOther, parsers.ReportTeardown,
	}
	decisions  = []policy.Decision{policy.Keep, policy.Wait, policy.Reap}
	classes    = []contents.Class{contents.ClassData, contents.ClassEphemeral, contents.ClassProjected, contents.ClassSkeleton}
	operations = []string{
		string(policy.Park), string(policy.Clear), string(policy.PutBack), string(policy.Strip), string(policy.Purge),
		OpLook, OpLedger, OpJournal, OpMetrics, OpCNI,
	}
)

// Counters registers counters. Other packages call it too.
func (m *Metrics) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// Gauges registers gauges. Other packages call it too.
func (m *Metrics) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

// NewMetrics returns the metrics, all at 0, for the given version of the program.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string) prometheus.Counter { return m.Counters(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge { return m.Gauges(name, help).WithLabelValues() }
	m.sightings = m.Counters("sightings_total", "Log lines in which a kubelet named a pod, by what it reported.", "reason")
	m.verdicts = m.Counters("verdicts_total", "Verdicts on pods, one look counting each pod directory, and each pod that only the runtime has, "+
		"once for every reason of its verdict.", "verdict", "reason")
	m.parked = counter("parked_pods_total", "Pod directories moved to quarantine.")
	m.cleared = counter("cleared_volumes_total", "Volume directories that a kubelet could not remove, whose content was moved to quarantine.")
	m.reaped = counter("reaped_pods_total", "Pods of whose directory nothing is left.")
	m.putBack = counter("put_back_pods_total", "Pod directories moved back from quarantine.")
	m.removedEntries = m.Counters("removed_entries_total", "Directory entries removed for good, by class of content.", "class")
	m.removedBytes = m.Counters("removed_bytes_total", "Allocated bytes removed for good, by class of content.", "class")
	m.failures = m.Counters("failures_total", "Operations that failed, each with a line in the log.", "operation")
	m.quietLines = counter("quiet_lines_total", "Log lines that kubelets wrote about pods until their message about the pod stopped, its directory gone.")
	m.slow = counter("slow_passes_total", "Passes that had not ended after 30 s; the log has what each was doing.")
	m.breaker = gauge("breaker_open", "1 while nothing is removed because a quarantined pod turned out to be alive.")
	m.enforcing = gauge("enforcing", "1 in mode enforce, 0 in mode observe.")
	m.lastSuccess = gauge("last_success_timestamp_seconds", "When a pass last ended without a failure, seconds since the epoch.")
	m.sourceUp = m.Gauges("source_up", "1 while the log source is followed.", "source")
	m.sourceLastLine = m.Gauges("source_last_line_timestamp_seconds", "When the last line came from the log source, seconds since the epoch.", "source")
	m.Gauges("build_info", "1, with the version of orphan-reaper and of the Go that built it.", "version", "goversion").
		WithLabelValues(clean.Text(version), runtime.Version()).Set(1)
	m.look, m.quarantine = m.lookGauges(), m.quarantineGauges()
	m.create()
	return m
}

// create creates every series whose labels are known.
func (m *Metrics) create() {
	for _, r := range reports {
		m.sightings.WithLabelValues(string(r))
	}
	for _, r := range policy.Reasons() {
		m.verdicts.WithLabelValues(string(policy.Keep), string(r))
		m.verdicts.WithLabelValues(string(policy.Wait), string(r))
	}
	m.verdicts.WithLabelValues(string(policy.Reap), reasonNone)
	m.verdicts.WithLabelValues(string(policy.Reap), string(policy.ReasonWaived))
	for _, c := range classes {
		m.removedEntries.WithLabelValues(c.String())
		m.removedBytes.WithLabelValues(c.String())
	}
	for _, op := range operations {
		m.failures.WithLabelValues(op)
	}
	m.set(looked{Look: policy.Look{Partial: true}})
	m.Quarantine(nil)
}

// Registry returns the registry, for tests and for a server of metrics.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Sighting counts one line in which a kubelet reported a pod.
func (m *Metrics) Sighting(r parsers.Report) { m.sightings.WithLabelValues(string(r)).Inc() }

// Look counts the verdicts of one look on the pods that are not in quarantine, and sets its gauges.
func (m *Metrics) Look(look policy.Look, pods []policy.Judged, took time.Duration) {
	for p := range policy.At(pods, policy.InPlace, policy.InRuntime) {
		if len(p.Why) == 0 {
			m.verdicts.WithLabelValues(string(p.Decision), reasonNone).Inc()
		}
		for _, w := range p.Why {
			m.verdicts.WithLabelValues(string(p.Decision), string(w.Reason)).Inc()
		}
	}
	m.set(looked{look, pods, took})
}

// Quarantine sets the gauges of the quarantine.
func (m *Metrics) Quarantine(entries map[string]*policy.EntryState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.quarantine {
		g.set(entries)
	}
}

// Orphan reports whether the metrics count an entry of the pods directory as an orphaned pod: the kubelet has reported
// it, and the runtime has no ready sandbox of it, since a pod can forge a log line. policy.Judge does not use it.
func Orphan(e *policy.Evidence) bool {
	return e.UID != "" && e.Facts[policy.FactNamed].Truth == policy.Yes && e.Facts[policy.FactSandbox].Truth != policy.Yes
}

// Outcome counts the outcome of one action.
func (m *Metrics) Outcome(o policy.Outcome) {
	for class, t := range o.Taken {
		m.removedEntries.WithLabelValues(class.String()).Add(float64(t.Entries))
		m.removedBytes.WithLabelValues(class.String()).Add(float64(t.Bytes))
	}
	if o.Result == policy.Failed {
		m.Failure(string(o.Action.Kind))
		return
	}
	done := o.Result == policy.Done
	switch o.Action.Kind {
	case policy.Park:
		if done {
			m.parked.Inc()
		}
	case policy.Clear:
		if done {
			m.cleared.Inc()
		}
	case policy.PutBack:
		if done || o.Result == policy.Conflict {
			m.putBack.Inc()
		}
	case policy.Strip, policy.Purge:
		if done && len(o.Left) == 0 && o.Action.Leaf == "" {
			m.reaped.Inc()
		}
	}
}

// Failure counts one failed operation: a kind of action, or one of the Op constants.
func (m *Metrics) Failure(operation string) { m.failures.WithLabelValues(operation).Inc() }

// Quiet counts the lines that a kubelet wrote about pods until its message about them stopped.
func (m *Metrics) Quiet(lines int64) { m.quietLines.Add(float64(lines)) }

// Slow counts a pass that has not ended after 30 s.
func (m *Metrics) Slow() { m.slow.Inc() }

// Success sets when a pass last ended without a failure.
func (m *Metrics) Success(at policy.Instant) { m.lastSuccess.Set(seconds(at.Wall)) }

// Breaker sets whether the breaker is open.
func (m *Metrics) Breaker(open bool) { m.breaker.Set(flag(open)) }

// Enforcing sets whether the daemon may change anything.
func (m *Metrics) Enforcing(yes bool) { m.enforcing.Set(flag(yes)) }

// Source sets whether a log source is followed, and the time of its last line, or zero. name is "journald" or a path.
func (m *Metrics) Source(name string, up bool, lastLine time.Time) {
	name = clean.Text(name)
	m.sourceUp.WithLabelValues(name).Set(flag(up))
	m.sourceLastLine.WithLabelValues(name).Set(seconds(lastLine))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns a time in seconds since the epoch, or 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
