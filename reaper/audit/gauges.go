package audit

import (
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// values maps the values of a gauge's label to the gauge's values; a gauge without a label has the key "". An unknown
// value is omitted and has no series.
type values map[string]float64

func only(v float64) values { return values{"": v} }

// gauge is one gauge whose series are computed together.
type gauge[T any] struct {
	vec     *prometheus.GaugeVec
	labeled bool
	of      func(T) values
	now     values
}

// row registers one gauge. label is "" if it has none.
func row[T any](m *Metrics, name, label, help string, of func(T) values) *gauge[T] {
	if label == "" {
		return &gauge[T]{vec: m.Gauges(name, help), of: of}
	}
	return &gauge[T]{vec: m.Gauges(name, help, label), labeled: true, of: of}
}

// set computes the gauge. It deletes only series whose value is no longer known, so that a concurrent scrape finds the
// others.
func (g *gauge[T]) set(from T) {
	labels := func(key string) []string {
		if g.labeled {
			return []string{key}
		}
		return nil
	}
	was := g.now
	g.now = g.of(from)
	for key, v := range g.now {
		g.vec.WithLabelValues(labels(key)...).Set(v)
	}
	for key := range was {
		if _, still := g.now[key]; !still {
			g.vec.DeleteLabelValues(labels(key)...)
		}
	}
}

// looked is one look with its pods.
type looked struct {
	policy.Look
	pods []policy.Judged
	took time.Duration
}

func (l looked) inPlace() iter.Seq[*policy.Judged] { return policy.At(l.pods, policy.InPlace) }

func (m *Metrics) set(l looked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.look {
		g.set(l)
	}
}

func (m *Metrics) lookGauges() []*gauge[looked] {
	return []*gauge[looked]{
		row(m, "pod_directories", "", "Entries of the pods directory at the last look, whatever they are.",
			func(l looked) values { return l.count(func(*policy.Evidence) bool { return true }) }),
		row(m, "stray_entries", "", "Entries of the pods directory whose name is no pod UID; they are left alone.",
			func(l looked) values { return l.count(func(e *policy.Evidence) bool { return e.UID == "" }) }),
		row(m, "orphans", "state", "Orphaned pods on disk at the last look, by verdict; one that only mode observe keeps counts as reap.",
			looked.orphans),
		row(m, "orphans_named", "", "Orphaned pods on disk at the last look that the running kubelet has reported in the last 30 s.",
			func(l looked) values {
				return l.count(func(e *policy.Evidence) bool { return e.Facts[policy.FactNamed].Truth == policy.Yes })
			}),
		row(m, "oldest_orphan_age_seconds", "", "Time since the directory of the longest unchanged orphaned pod changed, 0 without orphans.",
			looked.oldestOrphan),
		row(m, "pods", "state", "Pods at the last look, by state; a pod may be in several. A state that is not known has no series.",
			looked.states),
		row(m, "pods_for_person", "", "Pods at the last look that are kept for a reason that needs an operator.",
			looked.forPerson),
		row(m, "kubelet_orphan_errors", "", "Orphaned pods that the kubelet could not clean up by its own count "+
			"(kubelet_orphan_pod_cleaned_volumes_errors); absent while it cannot be asked.",
			func(l looked) values { return known(map[string]*int64{"": l.Node.Gauges.Uncleaned}) }),
		row(m, "kubelet_pods", "state", "Pods by the kubelet's own count: desired, active, mirror and working now, orphaned (in the runtime) "+
			"and restarted since its start. A state that it does not report has no series.", looked.kubeletPods),
		row(m, "last_look_timestamp_seconds", "", "Time of the last look, seconds since the epoch.",
			func(l looked) values { return only(seconds(l.At.Wall)) }),
		row(m, "look_duration_seconds", "", "Duration of the last look.", func(l looked) values { return only(l.took.Seconds()) }),
	}
}

func (l looked) states() values {
	all := values{}
	for state, n := range summary.CountPods(&l.Look, l.pods) {
		all[string(state)] = float64(n)
	}
	return all
}

func (l looked) forPerson() values {
	n := 0
	for p := range policy.At(l.pods, policy.InPlace, policy.InRuntime) {
		if policy.OutlookOf(p.Decision, p.Why) == policy.OutlookPerson {
			n++
		}
	}
	return only(float64(n))
}

func (l looked) count(is func(*policy.Evidence) bool) values {
	n := 0
	for p := range l.inPlace() {
		if is(&p.Evidence) {
			n++
		}
	}
	return only(float64(n))
}

func (l looked) orphans() values {
	all := values{}
	for _, d := range decisions {
		all[string(d)] = 0
	}
	for p := range l.inPlace() {
		if Orphan(&p.Evidence) {
			all[string(policy.CountedAs(p.Decision, p.Why))]++
		}
	}
	return all
}

func (l looked) oldestOrphan() values {
	var oldest time.Duration
	for p := range l.inPlace() {
		if Orphan(&p.Evidence) && !p.Changed.IsZero() {
			oldest = max(oldest, l.At.Wall.Sub(p.Changed))
		}
	}
	return only(oldest.Seconds())
}

func (l looked) kubeletPods() values {
	g := l.Node.Gauges
	counts := map[string]*int64{
		"desired": g.Desired, "active": g.Active, "mirror": g.Mirror, "orphaned": g.OrphanedRuntimePods, "restarted": g.RestartedPods,
	}
	if working, ok := g.WorkingOn("", ""); ok {
		counts["working"] = &working
	}
	return known(counts)
}

func known(counts map[string]*int64) values {
	all := values{}
	for label, n := range counts {
		if n != nil {
			all[label] = float64(*n)
		}
	}
	return all
}

func (m *Metrics) quarantineGauges() []*gauge[map[string]*policy.EntryState] {
	return []*gauge[map[string]*policy.EntryState]{
		row(m, "quarantine_entries", "phase", "Pod directories in quarantine, by phase.", func(entries map[string]*policy.EntryState) values {
			all := values{}
			for _, p := range policy.Phases() {
				all[string(p)] = 0
			}
			for _, e := range entries {
				if _, shown := all[string(e.Phase)]; shown && !e.Phase.Over() {
					all[string(e.Phase)]++
				}
			}
			return all
		}),
		row(m, "quarantine_bytes", "class", "Allocated bytes in quarantine by class of content, as far as they were counted.", quarantineBytes),
	}
}

func quarantineBytes(entries map[string]*policy.EntryState) values {
	all := values{}
	for _, c := range classes {
		all[c.String()] = 0
	}
	for _, e := range entries {
		for _, r := range e.Left {
			if !e.Phase.Over() {
				all[r.Class.String()] += float64(r.Bytes)
			}
		}
	}
	return all
}
