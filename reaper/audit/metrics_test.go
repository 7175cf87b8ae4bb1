package audit

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// everything is a status in which each part has a value, with names as bad as they get.
func everything() reaper.Status {
	pod := func(n int, d judge.Decision, edit func(p *reaper.PodStatus)) reaper.PodStatus {
		var p reaper.PodStatus
		p.UID, p.Decision = parsers.PodUID(fmt.Sprintf("0badf00d-0001-4aaa-8bbb-cccc0000%04d", n)), d
		p.Facts[judge.Running].Truth = judge.No
		edit(&p)
		return p
	}
	observed := judge.Reason{Reason: judge.ModeObserve}
	return reaper.Status{
		At: judge.Instant{Wall: noon}, Problems: []string{"a", "b"}, Stopped: &observed, Breaker: &judge.Event{}, Hidden: 5,
		Pods: []reaper.PodStatus{
			pod(1, judge.Keep, func(p *reaper.PodStatus) {
				p.Facts[judge.Reported].Truth, p.LastReport, p.Reasons = judge.Yes, noon.Add(-time.Minute), []judge.Reason{observed}
			}),
			pod(2, judge.Keep, func(p *reaper.PodStatus) {
				p.Facts[judge.Reported].Truth, p.Operator = judge.Yes, true
				p.Reasons = []judge.Reason{{Reason: judge.IsMounted}, observed}
			}),
			pod(3, judge.IsAlive, func(p *reaper.PodStatus) { p.Facts[judge.Running].Truth, p.Static = judge.Yes, true }),
			pod(4, judge.Wait, func(p *reaper.PodStatus) { p.Facts[judge.Running].Truth = judge.Unknown }),
			{Judged: judge.Judged{Pod: judge.Pod{Name: "lost+found"}}},
		},
		Quarantine: []judge.JudgedEntry{
			{Entry: judge.Entry{Phase: judge.Quarantined}},
			{Entry: judge.Entry{Phase: judge.Retained, Left: []judge.Residue{
				{Class: content.Data, Tally: judge.Tally{Bytes: 100}}, {Class: content.Ephemeral, Tally: judge.Tally{Bytes: 7}},
			}}},
			{Entry: judge.Entry{Phase: judge.InConflict, Left: []judge.Residue{{Class: content.Data, Tally: judge.Tally{Bytes: 11}}}}},
		},
		CNI: &reaper.CNIStatus{
			Files: 15, Bytes: 4096, Stale: 1, Waiting: 2, Unknown: 3, Others: 5,
			Networks: []reaper.CNINetwork{
				{Name: "cbr0", Used: 250, Stale: 3, Waiting: 4, Size: 254, Full: true},
				{Name: "a\"b\\c\nd\xff", Used: 2},
				{Name: "kept-by-whereabouts", Keeper: "whereabouts"},
			},
		},
	}
}

// busy returns the metrics of a daemon to which all of it has happened.
func busy() *Metrics {
	m := NewMetrics("1.2.3")
	m.Line()
	m.Line()
	for _, r := range Records {
		m.Event(judge.Event{Kind: r.Kind})
	}
	m.Event(judge.Event{Kind: judge.EventMoving}) // an intent
	m.Event(judge.Event{Kind: judge.EventRemoved, Taken: map[string]judge.Tally{"projected": {Entries: 2, Bytes: 300}}})
	m.Event(judge.Event{Kind: judge.EventCNIRemoved, Taken: map[string]judge.Tally{"address": {Entries: 9, Bytes: 900}}})
	m.Status(everything(), 150*time.Millisecond)
	return m
}

// TestMetrics has the numbers of a status that has everything. The rows of the table need no line here: what is listed is
// what a wrong count would hide.
func TestMetrics(t *testing.T) {
	registry := busy().Registry()
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	got := series(t, registry)
	for name, want := range map[string]float64{
		"last_scan_timestamp_seconds": float64(noon.Unix()), "scan_duration_seconds": 0.15, "problems": 2, "breaker_open": 1,
		"stopped observe": 1, "stopped breaker": 0, "pods directory": 4, "pods running": 1, "pods static": 1, "pods reported": 2,
		"pods hidden": 5, "pods removable": 1, "pods operator": 1, "verdicts keep": 3, "verdicts wait": 1, "verdicts alive": 1, "verdicts remove": 0,
		"quarantine_entries quarantined": 1, "quarantine_entries retained": 1, "quarantine_entries conflict": 1,
		"quarantine_bytes data": 111, "quarantine_bytes ephemeral": 7, "events_total removed": 2, "events_total failed": 1,
		"removed_bytes_total projected": 300, "removed_bytes_total data": 0,
		"cni_files live": 4, "cni_files stale": 1, "cni_files waiting": 2, "cni_files unknown": 3, "cni_files others": 5, "cni_bytes": 4096, "cni_removed_files_total": 9,
		"cni_addresses cbr0 used": 250, "cni_addresses cbr0 size": 254, "cni_addresses cbr0 stale": 3, "cni_network_full cbr0": 1,
		`cni_addresses a"b\c\nd\xff used`: 2, "log_lines_total": 2, "last_report_timestamp_seconds": float64(noon.Unix() - 60),
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), not %v", name, v, ok, want)
		}
	}
	for _, absent := range []string{"pods listed", "events_total moving", `cni_addresses a"b\c\nd\xff size`, "cni_addresses kept-by-whereabouts used"} {
		if v, ok := got[absent]; ok {
			t.Errorf("%s is %v", absent, v)
		}
	}
}

// series returns each value by the name and the values of the labels.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var name strings.Builder
			name.WriteString(strings.TrimPrefix(f.GetName(), Prefix))
			for _, l := range m.GetLabel() {
				name.WriteString(" " + l.GetValue())
			}
			all[name.String()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// TestLastReport: the report of a pod that is gone by now is still the last one.
func TestLastReport(t *testing.T) {
	m := busy()
	m.Status(reaper.Status{}, 0)
	if got := series(t, m.Registry())["last_report_timestamp_seconds"]; got != float64(noon.Unix()-60) {
		t.Errorf("%v", got)
	}
}

// TestManyNetworks: users of a cluster can make networks, and the series stay bounded. A full network is never left out.
func TestManyNetworks(t *testing.T) {
	var s reaper.Status
	s.CNI = &reaper.CNIStatus{}
	for i := range 1000 {
		s.CNI.Networks = append(s.CNI.Networks, reaper.CNINetwork{Name: fmt.Sprint(i), Used: i, Full: i == 0})
	}
	m := NewMetrics("1")
	m.Status(s, 0)
	got := series(t, m.Registry())
	if n := len(networks(m.view)); n != mostNetworks || got["cni_network_full 0"] != 1 || got["cni_addresses 999 used"] != 999 {
		t.Errorf("%d networks, full %v", n, got["cni_network_full 0"])
	}
}

// TestScrapeWhilePassing: a scrape sees a whole status while the loop goes on; go test -race shows more.
func TestScrapeWhilePassing(t *testing.T) {
	m := NewMetrics("1")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			s := reaper.Status{Hidden: i, Problems: make([]string, i)}
			m.Status(s, 0)
			m.Event(judge.Event{Kind: judge.EventRemoved, Taken: map[string]judge.Tally{"data": {Bytes: 1}}})
		}
	})
	registry := m.Registry()
	for range 50 {
		if got := series(t, registry); got["pods hidden"] != got["problems"] {
			t.Errorf("%v hidden pods, %v problems", got["pods hidden"], got["problems"])
		}
	}
	wg.Wait()
}

// TestHangs: the series of the reason stuck is 1 while a call hangs, though the pass that waits for it gives no status.
func TestHangs(t *testing.T) {
	m := NewMetrics("1")
	m.Status(reaper.Status{}, time.Second)
	changed := 0
	m.Changed = func() { changed++ }
	for want, hangs := range []bool{false, true} {
		m.Hangs(hangs)
		if got := series(t, m.Registry())["stopped stuck"]; got != float64(want) || changed != want+1 {
			t.Errorf("hangs %t: %v, changed %d times", hangs, got, changed)
		}
	}
}
