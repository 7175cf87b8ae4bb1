package reported

import (
	"fmt"
	"strings"
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

// TestHeard checks that the lines of one kubelet are forgotten with it, and that a pod that it holds is no orphan.
func TestHeard(t *testing.T) {
	s := testkit.DeadPod()
	var h Log
	claim := func(uid parsers.PodUID, r parsers.Report) Claim {
		return Claim{At: s.Now, Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.Node.KubeletID.PID, Whole: true, Path: "/volume"}}
	}
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	tell := func() policy.Facts {
		var e policy.Evidence
		e.UID = testkit.PodUID
		h.Complete(&e, s.Node, s.Now)
		return e.Facts
	}
	want := func(step string, named, anyNamed, teardown policy.Truth) {
		t.Helper()
		f := tell()
		if f[policy.FactNamed].Truth != named || f[policy.FactAnyNamed].Truth != anyNamed || f[policy.FactTeardown].Truth != teardown {
			t.Errorf("%s: reported %s, any reported %s, teardown %s", step, f[policy.FactNamed].Truth, f[policy.FactAnyNamed].Truth, f[policy.FactTeardown].Truth)
		}
	}
	want("nothing was ever learnt", policy.Unknown, policy.Unknown, policy.Unknown)
	h.Add(nil, s.Node, s.Now)
	want("the kubelet is known and has said nothing", policy.No, policy.No, policy.Unknown)
	h.Add([]Claim{claim(other, parsers.ReportOther)}, s.Node, s.Now)
	want("it named another", policy.No, policy.Yes, policy.No)
	h.Add([]Claim{claim(testkit.PodUID, parsers.ReportTeardown)}, s.Node, s.Now)
	want("its volume manager holds this one", policy.No, policy.Yes, policy.Yes)
	h.Add([]Claim{claim(testkit.PodUID, parsers.ReportNotADirectory)}, s.Node, s.Now)
	want("it named this one", policy.Yes, policy.Yes, policy.Yes)
	later := claim(testkit.PodUID, parsers.ReportNotADirectory)
	later.At = s.Ago(-time.Second)
	h.Add([]Claim{later, claim(testkit.PodUID, parsers.ReportTeardown)}, s.Node, s.Now)
	want("its volume manager has given up, and it was named after that", policy.Yes, policy.Yes, policy.No)
	forged := claim(testkit.PodUID, parsers.ReportOther)
	forged.Sighting.PID = 1
	h = Log{}
	h.Add([]Claim{forged}, s.Node, s.Now)
	want("somebody else named this one", policy.No, policy.No, policy.Unknown)
	h.Add([]Claim{claim(testkit.PodUID, parsers.ReportNotADirectory)}, s.Node, s.Now)
	s.Node.KubeletID = policy.KubeletID{PID: 9000, Start: s.Now.Boot - time.Minute}
	want("another kubelet runs", policy.Unknown, policy.Unknown, policy.Unknown)
	h.Add(nil, s.Node, s.Now)
	want("another kubelet runs and has said nothing", policy.No, policy.No, policy.Unknown)
	s.Node.Kubelet.Truth = policy.Unknown
	want("it is not known which runs", policy.Unknown, policy.Unknown, policy.Unknown)
}

// TestNeverHeard checks that a pod released by a complete list is kept if the log may be unreadable: the kubelet's
// volume manager may work in its directory. A pod without a directory has no such risk.
func TestNeverHeard(t *testing.T) {
	s := testkit.DeadPod()
	s.Pod.Facts[policy.FactReleased].Truth = policy.Yes
	var h Log
	judged := func(e policy.Evidence) policy.Verdict {
		h.Complete(&e, s.Node, s.Now)
		return policy.Judge(e, s.Node, s.Hold, s.Rules, s.Now)
	}
	h.Add(nil, s.Node, s.Now)
	if v := judged(s.Pod); v.Decision != policy.Keep || !v.For(policy.ReasonKubeletUnknown) || !strings.Contains(v.Why[0].Detail, "--log-source") {
		t.Errorf("no line was read: %s %v", v.Decision, v.Why)
	}
	only := s.Pod
	only.RuntimeOnly = true
	if v := judged(only); v.For(policy.ReasonKubeletUnknown) {
		t.Errorf("pod of the runtime only: %s %v", v.Decision, v.Why)
	}
	h.Add([]Claim{{At: s.Now, Sighting: parsers.Sighting{UID: "other", Report: parsers.ReportOther, PID: s.Node.KubeletID.PID, Whole: true}}}, s.Node, s.Now)
	if v := judged(s.Pod); v.Decision != policy.Reap {
		t.Errorf("after a line of the kubelet: %s %v", v.Decision, v.Why)
	}
}

// TestHeardBounded checks that forged lines in a file neither grow the log without end nor displace the fact that the
// kubelet has reported some orphan.
func TestHeardBounded(t *testing.T) {
	s := testkit.DeadPod()
	var h Log
	for i := range mostPods + 100 {
		for _, r := range []parsers.Report{parsers.ReportOther, parsers.ReportTeardown} {
			uid := parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
			h.Add([]Claim{{At: s.Now, Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.Node.KubeletID.PID, Whole: true}}}, s.Node, s.Now)
		}
	}
	if len(h.Named) != mostPods || len(h.Teardowns) != mostPods {
		t.Errorf("%d reported, %d held", len(h.Named), len(h.Teardowns))
	}
	e := policy.Evidence{UID: testkit.PodUID}
	if h.Complete(&e, s.Node, s.Now); e.Facts[policy.FactTeardown].Truth != policy.Unknown || e.Facts[policy.FactAnyNamed].Truth != policy.Yes {
		t.Errorf("pod beyond the bound: teardown %s, any reported %s", e.Facts[policy.FactTeardown].Truth, e.Facts[policy.FactAnyNamed].Truth)
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
			h.Add([]Claim{{At: s.Ago(ago), Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.Node.KubeletID.PID, Whole: true}}}, s.Node, s.Now)
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
