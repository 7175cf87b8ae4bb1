package reported

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

var rules = policy.Rules{Confirm: 5 * time.Minute}

// at returns the instant at that time after the first.
func at(after time.Duration) policy.Instant {
	const boot = 10 * time.Hour
	return policy.Instant{Wall: time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).Add(after), BootID: "b", Boot: boot + after}
}

func uid(i int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
}

// lines returns a claim of n lines about pod i, the last of them at that time.
func lines(i, n int, when time.Duration, report parsers.Report) Claim {
	return Claim{Sighting: parsers.Sighting{UID: uid(i), Report: report}, At: at(when), Lines: n}
}

func here(is ...int) []policy.Judged {
	var all []policy.Judged
	for _, i := range is {
		all = append(all, policy.Judged{Evidence: policy.Evidence{UID: uid(i), Namespace: "shop", PodName: fmt.Sprintf("cart-%d", i)}})
	}
	return all
}

func due(t *testing.T, m *Messages, after time.Duration) []policy.Record {
	t.Helper()
	records, next, _ := m.Due(rules, at(after))
	*m = next
	return records
}

// TestQuiet checks that once the kubelet has stopped repeating its line about a removed directory, one record has the
// time of the last line and their number, and that no second record follows.
func TestQuiet(t *testing.T) {
	for name, c := range map[string]struct {
		report parsers.Report
		more   time.Duration // time of one more line; 0: none
		want   time.Duration
	}{
		"a report":                   {parsers.ReportNotADirectory, 0, 15 * time.Minute},
		"a volume":                   {parsers.ReportTeardown, 0, 15 * time.Minute},
		"a line that was on its way": {parsers.ReportNotADirectory, 12 * time.Minute, 17 * time.Minute},
	} {
		var m Messages
		m.Count(lines(1, 100, time.Minute, c.report), lines(1, 200, 2*time.Minute, c.report))
		m.Update(here(1), at(3*time.Minute))
		if recs := due(t, &m, 9*time.Minute); recs != nil {
			t.Fatalf("%s: records while the directory exists: %+v", name, recs)
		}
		m.Moved(uid(1), true, at(10*time.Minute))
		last := at(2 * time.Minute).Wall
		if c.more > 0 {
			m.Count(lines(1, 1, c.more, c.report))
			last = at(c.more).Wall
		}
		m.Update(nil, at(12*time.Minute))
		if recs := due(t, &m, c.want-time.Second); recs != nil {
			t.Errorf("%s: recorded too soon: %+v", name, recs)
		}
		recs := due(t, &m, c.want)
		if len(recs) != 1 {
			t.Fatalf("%s: %d records", name, len(recs))
		}
		r, want := recs[0], int64(300)
		if c.more > 0 {
			want++
		}
		if r.Kind != policy.KindQuiet || r.UID != uid(1) || r.FullName() != "shop/cart-1" || r.Lines != want || !r.LastLine.Equal(last) || r.PodCount != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		if recs := due(t, &m, time.Hour); recs != nil || len(m.Pods) != 0 {
			t.Errorf("%s: recorded twice: %+v", name, recs)
		}
	}
}

// TestQuietFloor checks that even with a short confirm time the silence must exceed the kubelet's period, and for a
// volume its longest time between two tries.
func TestQuietFloor(t *testing.T) {
	for report, want := range map[parsers.Report]time.Duration{parsers.ReportOther: 10 * time.Second, parsers.ReportTeardown: 5 * time.Minute} {
		var m Messages
		m.Count(lines(1, 1, 0, report))
		m.Moved(uid(1), true, at(time.Second))
		_, _, next := m.Due(policy.Rules{Confirm: time.Second}, at(time.Second))
		if next != want {
			t.Errorf("%s: after %s, not %s", report, next, want)
		}
	}
}

// TestQuietTogether checks that pods that the kubelet stops reporting together share a record, and that there is at
// most one record a minute, whatever lines arrive.
func TestQuietTogether(t *testing.T) {
	var m Messages
	for i := range 40 {
		m.Count(lines(i, 50, time.Duration(i)*time.Second, parsers.ReportOther))
	}
	m.Update(nil, at(time.Minute)) // any process may have removed them
	m.Count(lines(40, 7, 2*time.Minute, parsers.ReportOther))
	m.Update(nil, at(2*time.Minute))
	m.Update(here(39), at(3*time.Minute)) // one pod is back
	recs := due(t, &m, 6*time.Minute+time.Second)
	if len(recs) != 1 || recs[0].PodCount != 39 || recs[0].Lines != 39*50 || recs[0].UID != "" || len(recs[0].Pods) != mostNamed {
		t.Fatalf("%+v", recs)
	}
	records, _, next := m.Due(rules, at(7*time.Minute))
	if records != nil || next != time.Second {
		t.Errorf("a second record within a minute: %+v, next %s", records, next)
	}
	if recs = due(t, &m, 7*time.Minute+time.Second); len(recs) != 1 || recs[0].UID != uid(40) {
		t.Errorf("%+v", recs)
	}
	if len(m.Pods) != 1 {
		t.Errorf("%+v", m)
	}
}

// TestQuietNoNews checks that volumes that were torn down after all, as those of any ended pod, are not recorded,
// unless something of the pod was removed for them.
func TestQuietNoNews(t *testing.T) {
	var m Messages
	m.Count(lines(1, 3, 0, parsers.ReportTeardown), lines(2, 3, 0, parsers.ReportTeardown))
	m.Update(here(1, 2), at(time.Second))
	m.Moved(uid(2), false, at(2*time.Second))
	m.Update(nil, at(time.Minute))
	if recs := due(t, &m, time.Hour); len(recs) != 1 || recs[0].UID != uid(2) || len(m.Pods) != 0 {
		t.Errorf("%+v", recs)
	}
}

// TestQuietBounds checks that the number of pods is bounded.
func TestQuietBounds(t *testing.T) {
	var m Messages
	for i := range mostCounted + 10 {
		m.Count(lines(i, 1, 0, parsers.ReportOther))
	}
	if len(m.Pods) != mostCounted {
		t.Errorf("%d pods", len(m.Pods))
	}
}

// TestQuietInsists checks that a kubelet that still reports a pod whose directory is gone is recorded once. It may be
// another kubelet with another root directory.
func TestQuietInsists(t *testing.T) {
	var m Messages
	m.Count(lines(1, 5, 0, parsers.ReportOther))
	m.Moved(uid(1), true, at(time.Second))
	for minute := range 9 {
		m.Count(lines(1, 30, time.Duration(minute+1)*time.Minute, parsers.ReportOther))
		m.Update(nil, at(time.Duration(minute+1)*time.Minute))
		if recs := due(t, &m, time.Duration(minute+1)*time.Minute); recs != nil {
			t.Fatalf("after %d minutes: %+v", minute+1, recs)
		}
	}
	m.Count(lines(1, 30, 11*time.Minute, parsers.ReportOther))
	recs := due(t, &m, 11*time.Minute)
	if len(recs) != 1 || recs[0].Kind != policy.KindStillNamed || !recs[0].NeedsPerson() || recs[0].Lines != 5+9*30+30 ||
		!recs[0].Gone.Equal(at(time.Second).Wall) {
		t.Errorf("%+v", recs)
	}
	if recs := due(t, &m, time.Hour); recs != nil {
		t.Errorf("recorded twice: %+v", recs)
	}
}

// TestQuietRestart checks that saved counts continue, that a line that is read again is not counted again, and that a
// reboot restarts the silence.
func TestQuietRestart(t *testing.T) {
	var was, m Messages
	was.Count(lines(1, 5, time.Minute, parsers.ReportOther))
	was.Moved(uid(1), true, at(2*time.Minute))
	b, err := json.Marshal(was)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	old := lines(1, 5, time.Minute, parsers.ReportOther)
	old.Sighting.CatchUp = true
	m.Count(old, Claim{Sighting: old.Sighting, At: at(time.Minute)})
	now := at(time.Hour)
	now.BootID, now.Boot = "c", time.Minute
	m.Update(nil, now)
	if recs, _, next := m.Due(rules, now); recs != nil || next != rules.Confirm {
		t.Errorf("after a reboot: %+v, next %s", recs, next)
	}
	now.Boot += rules.Confirm
	if recs, _, _ := m.Due(rules, now); len(recs) != 1 || recs[0].Lines != 5 {
		t.Errorf("%+v", recs)
	}
}

// TestClockSetBack checks that a kubelet that still reports after the wall clock was set back by an hour does not
// count as quiet, and that this is recorded after a while.
func TestClockSetBack(t *testing.T) {
	var m Messages
	m.Count(lines(1, 10, time.Minute, parsers.ReportNotADirectory))
	m.Update(here(1), at(time.Minute))
	m.Moved(uid(1), true, at(2*time.Minute))
	for d := 3 * time.Minute; d < 30*time.Minute; d += 10 * time.Second {
		c := lines(1, 5, d, parsers.ReportNotADirectory)
		c.At.Wall = c.At.Wall.Add(-time.Hour)
		m.Count(c)
		now := at(d)
		now.Wall = now.Wall.Add(-time.Hour)
		records, next, _ := m.Due(rules, now)
		m = next
		for _, rec := range records {
			if rec.Kind != policy.KindStillNamed {
				t.Fatalf("after %s, with a line every 10 s: %s", d, rec.Kind)
			}
			return
		}
	}
	t.Error("no record that the kubelet still reports the pod")
}
