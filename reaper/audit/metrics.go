package audit

import (
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/inventory"
)

// namespace is the first word of every metric.
const namespace = "orphan_reaper"

// reasonNone is the label of a verdict without a reason: an empty label is none at all.
const reasonNone = "none"

// The operations of orphan_reaper_failures_total besides the kinds of actions.
const (
	OpLook    = "look"    // a look could not be taken
	OpLedger  = "ledger"  // the ledger could not be written
	OpJournal = "journal" // a record could not be shown
	OpMetrics = "metrics" // the metrics file could not be written
	OpCNI     = "cni"     // a file of CNI could not be archived or removed
)

// Metrics counts what the daemon sees and does. The counters begin at 0 with each
// process, which Prometheus takes for what it is, a counter's reset; every series is
// there from the start, so that its first increase is seen. The methods may be called
// from several goroutines.
type Metrics struct {
	registry *prometheus.Registry

	sightings, verdicts               *prometheus.CounterVec
	parked, cleared, reaped, putBack  prometheus.Counter
	removedEntries, removedBytes      *prometheus.CounterVec
	failures                          *prometheus.CounterVec
	podDirectories, stray, oldest     prometheus.Gauge
	forPerson                         prometheus.Gauge
	orphans                           *prometheus.GaugeVec
	quarantineEntries                 *prometheus.GaugeVec
	quarantineBytes                   *prometheus.GaugeVec
	breaker, enforcing                prometheus.Gauge
	lastLook, lastSuccess, lookLength prometheus.Gauge
	slow, quietLines                  prometheus.Counter
	sourceUp, sourceLastLine          *prometheus.GaugeVec
	named                             prometheus.Gauge
	pods                              *prometheus.GaugeVec // no series of a state that is not known
	oldestSandbox                     *prometheus.GaugeVec // without labels; no series while the runtime is not known
	kubeletErrors                     *prometheus.GaugeVec // without labels; no series while it is not known
	kubeletPods                       *prometheus.GaugeVec // no series of a state that is not known
	reported                          *prometheus.GaugeVec // without labels; no series before the first report was written
}

// The labels' values, all of them.
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
	phases = policy.Phases()
)

// Counters adds counters, of a product beside the core as well.
func (m *Metrics) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// Gauges adds gauges, of a product beside the core as well.
func (m *Metrics) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

// NewMetrics returns metrics of a program of the given version, all at 0.
func NewMetrics(version string) *Metrics {
	reg := prometheus.NewRegistry()
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	bare := &Metrics{registry: reg}
	counters, gauges := bare.Counters, bare.Gauges
	gauge := func(name, help string) prometheus.Gauge { return gauges(name, help).WithLabelValues() }
	m := &Metrics{
		registry:  reg,
		sightings: counters("sightings_total", "Log lines in which a kubelet named a pod, by what it reported.", "reason"),
		verdicts: counters("verdicts_total", "Verdicts on pods, one look counting each pod directory, and each pod that only the runtime has, "+
			"once for every reason of its verdict.", "verdict", "reason"),
		parked:         counter("parked_pods_total", "Pod directories moved to quarantine."),
		cleared:        counter("cleared_volumes_total", "Volume directories that a kubelet could not remove, whose content was moved to quarantine."),
		reaped:         counter("reaped_pods_total", "Pods of whose directory nothing is left."),
		putBack:        counter("put_back_pods_total", "Pod directories moved back from quarantine."),
		removedEntries: counters("removed_entries_total", "Directory entries removed for good, by class of content.", "class"),
		removedBytes:   counters("removed_bytes_total", "Allocated bytes removed for good, by class of content.", "class"),
		failures:       counters("failures_total", "Operations that failed, each with a line in the log.", "operation"),
		podDirectories: gauge("pod_directories", "Entries of the pods directory at the last look, whatever they are."),
		orphans:        gauges("orphans", "Orphaned pods on disk at the last look, by verdict; one that only mode observe keeps counts as reap.", "state"),
		forPerson:      gauge("pods_for_person", "Pods at the last look that are kept for a reason that needs an operator."),
		named:          gauge("orphans_named", "Orphaned pods on disk at the last look that the running kubelet has named in its log since its start."),
		kubeletErrors: gauges("kubelet_orphan_errors", "Orphaned pods that the kubelet could not clean up by its own count "+
			"(kubelet_orphan_pod_cleaned_volumes_errors); absent while it cannot be asked."),
		kubeletPods: gauges("kubelet_pods", "Pods by the kubelet's own count: desired, active, mirror and working now, orphaned (in the runtime) "+
			"and restarted since its start. A state that it does not report has no series.", "state"),
		pods: gauges("pods", "Pods at the last look, by state; a pod may be in several. A state that is not known has no series.", "state"),
		oldestSandbox: gauges("oldest_orphaned_sandbox_age_seconds", "Age of the oldest stopped sandbox that only the runtime knows, "+
			"0 without one; absent while the runtime cannot be asked."),
		stray:             gauge("stray_entries", "Entries of the pods directory whose name is no pod UID; they are left alone."),
		oldest:            gauge("oldest_orphan_age_seconds", "Time since the directory of the longest unchanged orphaned pod changed, 0 without orphans."),
		quarantineEntries: gauges("quarantine_entries", "Pod directories in quarantine, by phase.", "phase"),
		quarantineBytes:   gauges("quarantine_bytes", "Allocated bytes in quarantine by class of content, as far as they were counted.", "class"),
		breaker:           gauge("breaker_open", "1 while nothing is removed because a quarantined pod turned out to be alive."),
		enforcing:         gauge("enforcing", "1 in mode enforce, 0 in mode observe."),
		lastLook:          gauge("last_look_timestamp_seconds", "Time of the last look, seconds since the epoch."),
		lastSuccess:       gauge("last_success_timestamp_seconds", "When a pass last ended without a failure, seconds since the epoch."),
		reported: gauges("last_report_timestamp_seconds", "When the node's OrphanReport was last written to the API server, seconds since the epoch; "+
			"absent before that."),
		quietLines:     counter("quiet_lines_total", "Log lines that kubelets wrote about pods until their message about the pod stopped, its directory gone."),
		slow:           counter("slow_passes_total", "Passes that had not ended after 30 s; the log has what each was doing."),
		lookLength:     gauge("look_duration_seconds", "Duration of the last look."),
		sourceUp:       gauges("source_up", "1 while the log source is followed.", "source"),
		sourceLastLine: gauges("source_last_line_timestamp_seconds", "When the last line came from the log source, seconds since the epoch.", "source"),
	}
	gauges("build_info", "1, with the version of orphan-reaper and of the Go that built it.", "version", "goversion").
		WithLabelValues(clean.Text(version), runtime.Version()).Set(1)
	m.create()
	return m
}

// create makes every series whose labels are known.
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
	for _, d := range decisions {
		m.orphans.WithLabelValues(string(d))
	}
	for _, c := range classes {
		m.removedEntries.WithLabelValues(c.String())
		m.removedBytes.WithLabelValues(c.String())
		m.quarantineBytes.WithLabelValues(c.String())
	}
	for _, op := range operations {
		m.failures.WithLabelValues(op)
	}
	for _, p := range phases {
		m.quarantineEntries.WithLabelValues(string(p))
	}
}

// Registry returns the registry, for tests and for whoever serves metrics otherwise.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Sighting counts one line in which a kubelet named a pod.
func (m *Metrics) Sighting(r parsers.Report) { m.sightings.WithLabelValues(string(r)).Inc() }

// Look takes in one look and its verdicts, one for each of look.Pods and then of look.RuntimeOnly.
func (m *Metrics) Look(look policy.Look, verdicts []policy.Verdict, took time.Duration) {
	var stray, named, forPerson int
	var oldest time.Duration
	states := map[policy.Decision]int{}
	pod := func(i int) *policy.Evidence {
		if i < len(look.Pods) {
			return &look.Pods[i]
		}
		return &look.RuntimeOnly[i-len(look.Pods)]
	}
	for i := range look.Pods {
		e := pod(i)
		if e.UID == "" {
			stray++
		}
		if e.Facts[policy.FactNamed].Truth == policy.Yes {
			named++
		}
		if i >= len(verdicts) || !Orphan(e) {
			continue
		}
		states[policy.CountedAs(verdicts[i].Decision, verdicts[i].Why)]++
		if !e.Changed.IsZero() {
			oldest = max(oldest, look.At.Wall.Sub(e.Changed))
		}
	}
	m.pods.Reset()
	for state, n := range inventory.Of(&look) {
		m.pods.WithLabelValues(string(state)).Set(float64(n))
	}
	var sandbox time.Duration
	for i, v := range verdicts {
		if i < len(look.Pods)+len(look.RuntimeOnly) && v.For(policy.ReasonSandboxOrphaned) {
			if at, ok := pod(i).OldestSandbox(); ok {
				sandbox = max(sandbox, look.At.Wall.Sub(at))
			}
		}
		if policy.OutlookOf(v.Decision, v.Why) == policy.OutlookPerson {
			forPerson++
		}
		if len(v.Why) == 0 {
			m.verdicts.WithLabelValues(string(v.Decision), reasonNone).Inc()
		}
		for _, w := range v.Why {
			m.verdicts.WithLabelValues(string(v.Decision), string(w.Reason)).Inc()
		}
	}
	for _, d := range decisions {
		m.orphans.WithLabelValues(string(d)).Set(float64(states[d]))
	}
	m.podDirectories.Set(float64(len(look.Pods)))
	m.stray.Set(float64(stray))
	m.named.Set(float64(named))
	m.forPerson.Set(float64(forPerson))
	m.kubeletErrors.Reset()
	if n := look.Node.Gauges.Uncleaned; n != nil {
		m.kubeletErrors.WithLabelValues().Set(float64(*n))
	}
	m.kubelet(look.Node.Gauges)
	m.oldestSandbox.Reset()
	if look.InRuntime != nil {
		m.oldestSandbox.WithLabelValues().Set(sandbox.Seconds())
	}
	m.oldest.Set(oldest.Seconds())
	m.lastLook.Set(seconds(look.At.Wall))
	m.lookLength.Set(took.Seconds())
}

// kubelet passes on what the kubelet counts.
func (m *Metrics) kubelet(g policy.KubeletGauges) {
	m.kubeletPods.Reset()
	working, known := g.WorkingOn("", "")
	counts := map[string]*int64{
		"desired": g.Desired, "active": g.Active, "mirror": g.Mirror, "orphaned": g.OrphanedRuntimePods, "restarted": g.RestartedPods,
	}
	if known {
		counts["working"] = &working
	}
	for state, n := range counts {
		if n != nil {
			m.kubeletPods.WithLabelValues(state).Set(float64(*n))
		}
	}
}

// Orphan reports whether the metrics count an entry of the pods directory as an orphaned pod:
// the kubelet has named it, or nothing on the node shows that it lives: no cgroup, and no
// sandbox or container that the runtime knows. One with a sandbox that is ready is none,
// whatever a line says of it: a pod can forge one. It is for counting; policy.Judge decides.
func Orphan(e *policy.Evidence) bool {
	if e.UID == "" || slices.ContainsFunc(e.Sandboxes, func(s policy.Sandbox) bool { return s.Ready }) {
		return false
	}
	f := &e.Facts
	return f[policy.FactNamed].Truth == policy.Yes || f[policy.FactCgroup].Truth == policy.No &&
		f[policy.FactSandbox].Truth != policy.Yes && f[policy.FactContainer].Truth != policy.Yes
}

// Outcome counts what one action did.
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

// Success says that a pass ended at the given time and nothing failed.
func (m *Metrics) Success(at policy.Instant) { m.lastSuccess.Set(seconds(at.Wall)) }

// Reported says that the node's OrphanReport was written at the given time.
func (m *Metrics) Reported(at time.Time) { m.reported.WithLabelValues().Set(seconds(at)) }

// Quarantine takes in what lies in quarantine.
func (m *Metrics) Quarantine(entries map[string]*policy.EntryState) {
	byPhase, byClass := map[policy.Phase]int{}, map[contents.Class]int64{}
	for _, e := range entries {
		if e.Phase.Over() {
			continue
		}
		byPhase[e.Phase]++
		for _, r := range e.Left {
			byClass[r.Class] += r.Bytes
		}
	}
	for _, p := range phases {
		m.quarantineEntries.WithLabelValues(string(p)).Set(float64(byPhase[p]))
	}
	for _, c := range classes {
		m.quarantineBytes.WithLabelValues(c.String()).Set(float64(byClass[c]))
	}
}

// Breaker reports whether the breaker is open.
func (m *Metrics) Breaker(open bool) { m.breaker.Set(flag(open)) }

// Enforcing reports whether the daemon may change anything.
func (m *Metrics) Enforcing(yes bool) { m.enforcing.Set(flag(yes)) }

// Source reports whether a log source is followed, and when its last line came (zero: none
// yet). name is "journald" or a path.
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

// seconds returns a time as metrics hold it, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
