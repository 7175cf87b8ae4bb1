package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestEvident: whose word a line is. Anyone may write to syslog, and a kubelet's PID may have
// been another process's, or an earlier kubelet's, before.
func TestEvident(t *testing.T) {
	s := deadScene()
	k := s.node.KubeletID
	line := func(change func(*Claim)) Claim {
		c := Claim{At: s.now, Sighting: parsers.Sighting{UID: testUID, PID: k.PID, Whole: true}}
		change(&c)
		return c
	}
	tests := []struct {
		name   string
		claim  Claim
		want   bool
		format LogFormat
	}{
		{"read as it was written, the kubelet's PID", line(func(*Claim) {}), true, LogText},
		{"another PID", line(func(c *Claim) { c.Sighting.PID++ }), false, LogText},
		{"no PID", line(func(c *Claim) { c.Sighting.PID = 0 }), false, LogText},
		{"in the file before we came, without a certain time", line(func(c *Claim) { c.Sighting.CatchUp = true }), false, LogText},
		{"the same with a time after the kubelet's start", line(func(c *Claim) {
			c.Sighting.CatchUp, c.Sighting.Time = true, s.now.Wall.Add(-time.Hour)
		}), true, LogText},
		{"a time before the kubelet's start", line(func(c *Claim) { c.Sighting.Time = s.now.Wall.Add(-100 * time.Hour) }), false, LogText},
		{"a time that has not come yet", line(func(c *Claim) {
			c.Sighting.CatchUp, c.Sighting.Time = true, s.now.Wall.Add(time.Hour)
		}), false, LogText},
		{"journald says this boot", line(func(c *Claim) { c.Sighting.BootID = "boot1" }), true, LogText},
		{"journald says another boot", line(func(c *Claim) { c.Sighting.BootID = "boot0" }), false, LogText},
		{"read in another boot", line(func(c *Claim) { c.At.BootID = "boot-0" }), false, LogText},
		{"read before the kubelet's start", line(func(c *Claim) { c.At.Boot = k.Start - time.Second }), false, LogText},
		{"perhaps the rest of a longer line", line(func(c *Claim) { c.Sighting.Whole = false }), false, LogText},
		{"the same by journald's fields", line(func(c *Claim) { c.Sighting.Whole, c.Sighting.Trusted = false, true }), false, LogText},
		{"JSON of a kubelet that writes text", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), false, LogText},
		{"JSON of a kubelet whose format nobody knows", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), false, LogUnknown},
		{"JSON of a kubelet that writes JSON", line(func(c *Claim) { c.Sighting.JSON, c.Sighting.Trusted = true, true }), true, LogJSON},
		{"the same in a file, with a PID that anyone may have written", line(func(c *Claim) { c.Sighting.JSON = true }), false, LogJSON},
		{"text of a kubelet that writes JSON", line(func(c *Claim) { c.Sighting.Trusted = true }), false, LogJSON},
		{"text of a kubelet whose format nobody knows", line(func(c *Claim) { c.Sighting.Trusted = true }), true, LogUnknown},
	}
	for _, tt := range tests {
		if got := tt.claim.Evident(k, tt.format, s.now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	if line(func(*Claim) {}).Evident(KubeletID{}, LogText, s.now) {
		t.Error("a claim is evident although no kubelet is known")
	}
}

// TestHeard: what one kubelet said is forgotten with it, and what it holds is no orphan.
func TestHeard(t *testing.T) {
	s := deadScene()
	var h Heard
	claim := func(uid parsers.PodUID, r parsers.Report) Claim {
		return Claim{At: s.now, Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.node.KubeletID.PID, Whole: true, Path: "/volume"}}
	}
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	tell := func() Facts {
		var e Evidence
		e.UID = testUID
		h.Tell(&e, s.node, s.now)
		return e.Facts
	}
	want := func(step string, named, swept, held Truth) {
		t.Helper()
		f := tell()
		if f[FactNamed].Truth != named || f[FactAnyNamed].Truth != swept || f[FactTeardown].Truth != held {
			t.Errorf("%s: named %s, swept %s, held %s", step, f[FactNamed].Truth, f[FactAnyNamed].Truth, f[FactTeardown].Truth)
		}
	}
	want("nothing was ever learnt", Unknown, Unknown, Unknown)
	h.Add(nil, s.node, s.now)
	want("the kubelet is known and has said nothing", No, No, No)
	h.Add([]Claim{claim(other, parsers.ReportOther)}, s.node, s.now)
	want("it named another", No, Yes, No)
	h.Add([]Claim{claim(testUID, parsers.ReportTeardown)}, s.node, s.now)
	want("its volume manager holds this one", No, Yes, Yes)
	h.Add([]Claim{claim(testUID, parsers.ReportNotADirectory)}, s.node, s.now)
	want("it named this one", Yes, Yes, Yes)
	later := claim(testUID, parsers.ReportNotADirectory)
	later.At = s.ago(-time.Second)
	h.Add([]Claim{later, claim(testUID, parsers.ReportTeardown)}, s.node, s.now)
	want("its volume manager has given up, and it was named after that", Yes, Yes, No)
	forged := claim(testUID, parsers.ReportOther)
	forged.Sighting.PID = 1
	h = Heard{}
	h.Add([]Claim{forged}, s.node, s.now)
	want("somebody else named this one", No, No, No)
	h.Add([]Claim{claim(testUID, parsers.ReportNotADirectory)}, s.node, s.now)
	s.node.KubeletID = KubeletID{PID: 9000, Start: s.now.Boot - time.Minute}
	want("another kubelet runs", Unknown, Unknown, Unknown)
	h.Add(nil, s.node, s.now)
	want("another kubelet runs and has said nothing", No, No, No)
	s.node.Kubelet.Truth = Unknown
	want("it is not known which runs", Unknown, Unknown, Unknown)
}

// TestHeardBounded: forged lines of a file cannot make it grow without end, nor push out
// that the kubelet has named some orphan.
func TestHeardBounded(t *testing.T) {
	s := deadScene()
	var h Heard
	for i := range mostHeard + 100 {
		for _, r := range []parsers.Report{parsers.ReportOther, parsers.ReportTeardown} {
			uid := parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
			h.Add([]Claim{{At: s.now, Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.node.KubeletID.PID, Whole: true}}}, s.node, s.now)
		}
	}
	if len(h.Named) != mostHeard || len(h.Teardowns) != mostHeard {
		t.Errorf("%d named, %d held", len(h.Named), len(h.Teardowns))
	}
	e := Evidence{UID: testUID}
	if h.Tell(&e, s.node, s.now); e.Facts[FactTeardown].Truth != Unknown || e.Facts[FactAnyNamed].Truth != Yes {
		t.Errorf("of a pod beyond the bound: held %s, swept %s", e.Facts[FactTeardown].Truth, e.Facts[FactAnyNamed].Truth)
	}
}

// TestHeardOver: a volume that the kubelet has not mentioned for long, while it spoke of
// others, is no longer held. Without that a backlog that a restarted kubelet found is taken
// one pod at a time, each after a hold of its own. A kubelet that says nothing at all has
// finished nothing.
func TestHeardOver(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	minutes := func(from, to int) (all []time.Duration) {
		for m := from; m >= to; m-- {
			all = append(all, time.Duration(m)*time.Minute)
		}
		return all
	}
	for name, tc := range map[string]struct {
		ago    time.Duration   // the word on this pod
		others []time.Duration // the words on another
		want   Truth
	}{
		"just now":                           {time.Second, minutes(0, 0), Yes},
		"it may be waiting for its next try": {silence - time.Minute, minutes(9, 0), Yes},
		"not again for long":                 {silence + time.Minute, minutes(10, 0), No},
		"the kubelet is silent":              {time.Hour, minutes(60, 59), Yes},
		"we were away":                       {20 * time.Minute, minutes(5, 0), Yes},
		"we were away, long ago":             {time.Hour, minutes(12, 0), No},
	} {
		s := deadScene()
		var h Heard
		say := func(uid parsers.PodUID, r parsers.Report, ago time.Duration) {
			h.Add([]Claim{{At: s.ago(ago), Sighting: parsers.Sighting{UID: uid, Report: r, PID: s.node.KubeletID.PID, Whole: true}}}, s.node, s.now)
		}
		say(testUID, parsers.ReportTeardown, tc.ago)
		for _, ago := range tc.others {
			say(other, parsers.ReportOther, ago)
		}
		h.Tell(&s.ev, s.node, s.now)
		if got := s.ev.Facts[FactTeardown].Truth; got != tc.want {
			t.Errorf("%s: held %s, want %s", name, got, tc.want)
		}
		say(testUID, parsers.ReportTeardown, 0)
		if h.Tell(&s.ev, s.node, s.now); s.ev.Facts[FactTeardown].Truth != Yes {
			t.Errorf("%s: it tries again, and held is %s", name, s.ev.Facts[FactTeardown].Truth)
		}
	}
}
