package reported

import (
	"fmt"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestEvident checks which lines count as the kubelet's. Any process may write to syslog, and a kubelet's PID may
// earlier have been that of another process or kubelet.
func TestEvident(t *testing.T) {
	s := testkit.DeadPod()
	k := s.Node.KubeletID
	line := func(change func(*Claim)) Claim {
		c := Claim{At: s.Now, Sighting: parsers.Sighting{UID: testkit.PodUID, PID: k.PID, Whole: true}}
		change(&c)
		return c
	}
	tests := []struct {
		name   string
		claim  Claim
		want   bool
		format policy.LogFormat
	}{
		{"read as it was written, the kubelet's PID", line(func(*Claim) {}), true, policy.LogText},
		{"another PID", line(func(c *Claim) { c.Sighting.PID++ }), false, policy.LogText},
		{"no PID", line(func(c *Claim) { c.Sighting.PID = 0 }), false, policy.LogText},
		{"in the file before we came, without a certain time", line(func(c *Claim) { c.Sighting.CatchUp = true }), false, policy.LogText},
		{"the same with a time after the kubelet's start", line(func(c *Claim) {
			c.Sighting.CatchUp, c.Sighting.Time = true, s.Now.Wall.Add(-time.Hour)
		}), true, policy.LogText},
		{"a time before the kubelet's start", line(func(c *Claim) { c.Sighting.Time = s.Now.Wall.Add(-100 * time.Hour) }), false, policy.LogText},
		{"a time that has not come yet", line(func(c *Claim) {
			c.Sighting.CatchUp, c.Sighting.Time = true, s.Now.Wall.Add(time.Hour)
		}), false, policy.LogText},
		{"journald says this boot", line(func(c *Claim) { c.Sighting.BootID = "boot1" }), true, policy.LogText},
		{"journald says another boot", line(func(c *Claim) { c.Sighting.BootID = "boot0" }), false, policy.LogText},
		{"read in another boot", line(func(c *Claim) { c.At.BootID = "boot-0" }), false, policy.LogText},
		{"read before the kubelet's start", line(func(c *Claim) { c.At.Boot = k.Start - time.Second }), false, policy.LogText},
		{"perhaps the rest of a longer line", line(func(c *Claim) { c.Sighting.Whole = false }), false, policy.LogText},
		{"the same by journald's fields", line(func(c *Claim) { c.Sighting.Whole, c.Sighting.Trusted = false, true }), false, policy.LogText},
		{"JSON of a kubelet that writes text", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), false, policy.LogText},
		{"JSON of a kubelet whose format nobody knows", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), false, policy.LogUnknown},
		{"JSON of a kubelet that writes JSON", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), true, policy.LogJSON},
		{"the same in a file, with a PID that anyone may have written", line(func(c *Claim) { c.Sighting.JSON = true }), false, policy.LogJSON},
		{"text of a kubelet that writes JSON", line(func(c *Claim) { c.Sighting.Trusted = true }), false, policy.LogJSON},
		{"text of a kubelet whose format nobody knows", line(func(c *Claim) { c.Sighting.Trusted = true }), true, policy.LogUnknown},
	}
	for _, tt := range tests {
		if got := tt.claim.Evident(k, tt.format, s.Now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	if line(func(*Claim) {}).Evident(policy.KubeletID{}, policy.LogText, s.Now) {
		t.Error("a claim is evident without a known kubelet")
	}
}

// claimOf returns a line of the running kubelet.
func claimOf(s *testkit.Scene, uid parsers.PodUID, r parsers.Report, kind parsers.Kind, ago time.Duration) Claim {
	return Claim{At: s.Ago(ago), Sighting: parsers.Sighting{UID: uid, Report: r, Kind: kind, PID: s.Node.KubeletID.PID, Whole: true, Path: "/volume"}}
}

// TestFreshReport checks that a report of a pod's removal releases the pod for 30 seconds, that no other report does, and
// that one of its volumes keeps it.
func TestFreshReport(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	for name, tt := range map[string]struct {
		claims      func(s *testkit.Scene) []Claim
		named       policy.Truth
		unmountable bool
	}{
		"nothing": {func(*testkit.Scene) []Claim { return nil }, policy.No, false},
		"just now": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0)}
		}, policy.Yes, false},
		"30 s ago": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, fresh)}
		}, policy.Yes, false},
		"31 s ago": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, fresh+time.Second)}
		}, policy.No, false},
		"read now, written a minute ago": {func(s *testkit.Scene) []Claim {
			c := claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0)
			c.Sighting.Time = s.Now.Wall.Add(-time.Minute)
			return []Claim{c}
		}, policy.No, false},
		"another pod": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, other, parsers.ReportOther, parsers.KindRemoval, 0)}
		}, policy.No, false},
		"volumes": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindVolumes, 0)}
		}, policy.No, true},
		"volumes, and its removal": {func(s *testkit.Scene) []Claim {
			return []Claim{
				claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindVolumes, 20*time.Second),
				claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0),
			}
		}, policy.No, true},
		"volumes, a minute ago": {func(s *testkit.Scene) []Claim {
			return []Claim{
				claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindVolumes, time.Minute),
				claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0),
			}
		}, policy.Yes, false},
		"an unknown text": {func(s *testkit.Scene) []Claim {
			return []Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, "", 0)}
		}, policy.No, false},
		"another process": {func(s *testkit.Scene) []Claim {
			c := claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0)
			c.Sighting.PID = 1
			return []Claim{c}
		}, policy.No, false},
	} {
		s := testkit.DeadPod()
		var l Log
		l.Add(tt.claims(s), s.Node, s.Now)
		l.Complete(&s.Pod, s.Node, s.Now)
		if f := s.Pod.Facts[policy.FactNamed]; f.Truth != tt.named || s.Pod.Unmountable != tt.unmountable || f.Detail == "" {
			t.Errorf("%s: %+v, unmountable %t", name, f, s.Pod.Unmountable)
		}
	}
	s := testkit.DeadPod()
	var l Log
	l.Add([]Claim{claimOf(s, testkit.PodUID, parsers.ReportOther, parsers.KindRemoval, 0)}, s.Node, s.Now)
	s.Node.KubeletID = policy.KubeletID{PID: 9000, Start: s.Now.Boot - time.Second}
	l.Add(nil, s.Node, s.Now)
	if l.Complete(&s.Pod, s.Node, s.Now); s.Pod.Facts[policy.FactNamed].Truth != policy.No {
		t.Error("a report of an earlier kubelet counts")
	}
}

// TestReportsBounded checks that forged lines in a file do not grow the log without end.
func TestReportsBounded(t *testing.T) {
	s := testkit.DeadPod()
	var l Log
	for i := range mostPods + 100 {
		uid := parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
		l.Add([]Claim{
			claimOf(s, uid, parsers.ReportOther, parsers.KindRemoval, 0), claimOf(s, uid, parsers.ReportOther, parsers.KindVolumes, 0),
			claimOf(s, uid, parsers.ReportTeardown, "", 0),
		}, s.Node, s.Now)
	}
	if len(l.Named) != mostPods || len(l.Volumes) != mostPods || len(l.Teardowns) != mostPods {
		t.Errorf("%d reported, %d with volumes, %d held", len(l.Named), len(l.Volumes), len(l.Teardowns))
	}
}

// TestHeardOver checks that a volume is no longer held if the kubelet has not reported it for long while it reported
// others. Otherwise a backlog found by a restarted kubelet is removed pod by pod, each after a hold of its own. A
// kubelet that reports nothing has finished nothing.
func TestHeardOver(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	minutes := func(from, to int) (all []time.Duration) {
		for m := from; m >= to; m-- {
			all = append(all, time.Duration(m)*time.Minute)
		}
		return all
	}
	for name, tc := range map[string]struct {
		ago    time.Duration   // the last line about this pod
		others []time.Duration // the lines about another pod
		want   policy.Truth
	}{
		"just now":                           {time.Second, minutes(0, 0), policy.Yes},
		"it may be waiting for its next try": {silence - time.Minute, minutes(9, 0), policy.Yes},
		"not again for long":                 {silence + time.Minute, minutes(10, 0), policy.No},
		"the kubelet is silent":              {time.Hour, minutes(60, 59), policy.Yes},
		"we were away":                       {20 * time.Minute, minutes(5, 0), policy.Yes},
		"we were away, long ago":             {time.Hour, minutes(12, 0), policy.No},
	} {
		s := testkit.DeadPod()
		var h Log
		report := func(uid parsers.PodUID, r parsers.Report, ago time.Duration) {
			h.Add([]Claim{{At: s.Ago(ago), Sighting: parsers.Sighting{UID: uid, Report: r, Kind: parsers.KindRemoval, PID: s.Node.KubeletID.PID, Whole: true}}}, s.Node, s.Now)
		}
		report(testkit.PodUID, parsers.ReportTeardown, tc.ago)
		for _, ago := range tc.others {
			report(other, parsers.ReportOther, ago)
		}
		h.Complete(&s.Pod, s.Node, s.Now)
		if got := s.Pod.Facts[policy.FactTeardown].Truth; got != tc.want {
			t.Errorf("%s: held %s, want %s", name, got, tc.want)
		}
		report(testkit.PodUID, parsers.ReportTeardown, 0)
		if h.Complete(&s.Pod, s.Node, s.Now); s.Pod.Facts[policy.FactTeardown].Truth != policy.Yes {
			t.Errorf("%s: held is %s after a retry", name, s.Pod.Facts[policy.FactTeardown].Truth)
		}
	}
}
