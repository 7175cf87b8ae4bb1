package reported

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestClaimsFlood checks that forged lines neither fill the memory nor displace the kubelet's own lines.
func TestClaimsFlood(t *testing.T) {
	for name, forged := range map[string]parsers.Sighting{
		"a file's lines":         {Whole: true},
		"rests of longer ones":   {Trusted: true},
		"with the longest names": {Whole: true, Report: parsers.ReportTeardown, Path: strings.Repeat("p", 1024), Leaf: strings.Repeat("l", 1024)},
	} {
		var g Claims
		at := policy.Instant{Boot: time.Hour}
		for n := range 3 * MostClaims {
			s := forged
			s.UID, s.Volume = parsers.PodUID(fmt.Sprint(n%7)), fmt.Sprintf("%0256d", n)
			g.Add(Claim{Sighting: s, At: at})
		}
		own := Claim{At: at, Sighting: parsers.Sighting{UID: "1", Trusted: true, Whole: true, PID: 3416}}
		g.Add(own)
		claims := g.Take()
		bytes, found := 0, false
		for _, c := range claims {
			bytes += c.Size()
			found = found || c == own
		}
		if bytes > 2*mostClaimBytes || len(claims) > 2*MostClaims || !found {
			t.Errorf("%s: %d claims with %d bytes, the kubelet's own among them: %t", name, len(claims), bytes, found)
		}
		if !reflect.DeepEqual(g, Claims{}) {
			t.Errorf("%s: claims remain after Take", name)
		}
		g.Add(own)
		g.Add(own)
		if g.rooms[1] != (room{1, own.Size()}) {
			t.Errorf("%s: a repeated claim counts again: %+v", name, g.rooms)
		}
	}
}

// TestClaimsLast checks that the last claim of each key counts, that a hint does not replace evidence, and that
// claims and line counts are the same in every order of reading.
func TestClaimsLast(t *testing.T) {
	s := testkit.DeadPod()
	line := func(ago time.Duration, change func(*parsers.Sighting)) Claim {
		c := Claim{At: s.Ago(ago), Lines: 1, Sighting: parsers.Sighting{UID: testkit.PodUID, PID: 812, Trusted: true, Whole: true, Time: s.Ago(ago).Wall}}
		change(&c.Sighting)
		return c
	}
	all := []Claim{
		line(time.Hour, func(*parsers.Sighting) {}),
		line(2*time.Hour, func(*parsers.Sighting) {}),
		line(0, func(s *parsers.Sighting) { s.Whole = false }),
		line(0, func(s *parsers.Sighting) { s.PID = 43 }),
		line(0, func(s *parsers.Sighting) { s.Trusted = false }),
		line(0, func(s *parsers.Sighting) { s.JSON = true }),
		line(0, func(s *parsers.Sighting) { s.Volume = "v" }),
		line(0, func(s *parsers.Sighting) { s.Report = parsers.ReportTeardown }),
		line(0, func(s *parsers.Sighting) { s.UID = "another" }),
	}
	var want []Claim
	for range 100 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var g Claims
		for _, c := range all {
			g.Add(c)
		}
		got := g.Take()
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) || len(got) != 8 {
			t.Fatalf("%d claims: %+v, then %+v", len(got), want, got)
		}
	}
	if age, ok := s.Now.Since(want[0].At); !ok || age != time.Hour || want[0].Lines != 2 {
		t.Errorf("the claim is %v old and counts %d lines", age, want[0].Lines)
	}
}

// TestClaimsReplayed checks that a line that is no evidence because of its time does not replace the kubelet's own: any
// process can write an old one again into a plain log file.
func TestClaimsReplayed(t *testing.T) {
	s := testkit.DeadPod()
	k := policy.KubeletID{PID: 812, Start: s.Now.Boot - time.Hour}
	own := Claim{At: s.Ago(time.Minute), Sighting: parsers.Sighting{UID: testkit.PodUID, PID: 812, Whole: true, Time: s.Ago(time.Minute).Wall}}
	for name, change := range map[string]func(*parsers.Sighting){
		"old":              func(l *parsers.Sighting) { l.Time = s.Ago(2 * time.Hour).Wall },
		"from the future":  func(l *parsers.Sighting) { l.Time = s.Now.Wall.Add(time.Hour) },
		"without its time": func(l *parsers.Sighting) { l.Time, l.CatchUp = time.Time{}, true },
	} {
		replayed := own
		replayed.At = s.Now
		change(&replayed.Sighting)
		var g Claims
		g.Add(own)
		g.Add(replayed)
		if !slices.ContainsFunc(g.Take(), func(c Claim) bool { return c.Evident(k, policy.LogText, s.Now) }) {
			t.Errorf("a line that is %s replaced the kubelet's own", name)
		}
	}
}

// TestClaimsDropped checks that whether a pod is held is unknown after a flood has displaced the kubelet's tear-down
// errors, until the kubelet has had time to repeat them. A flood by other ways than the kubelet's own changes
// nothing.
func TestClaimsDropped(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	for name, tc := range map[string]struct {
		report  parsers.Report
		trusted bool // the flood comes by journald's fields
		whole   bool
		own     bool // the kubelet's own lines do
		want    policy.Truth
	}{
		"errors in a file":                                   {parsers.ReportTeardown, false, true, false, policy.Unknown},
		"errors by journald's fields":                        {parsers.ReportTeardown, true, true, true, policy.Unknown},
		"errors in a file, beside a kubelet under journald":  {parsers.ReportTeardown, false, true, true, policy.No},
		"parts of lines":                                     {parsers.ReportTeardown, true, false, true, policy.No},
		"orphans, which only makes those wait that are lost": {parsers.ReportOther, true, true, true, policy.No},
	} {
		s := testkit.DeadPod()
		var h Log
		var g Claims
		own := func(uid parsers.PodUID, report parsers.Report, at policy.Instant) Claim {
			return Claim{At: at, Sighting: parsers.Sighting{UID: uid, Report: report, PID: s.Node.KubeletID.PID, Whole: true, Trusted: tc.own}}
		}
		held := func(step string, want policy.Truth) {
			t.Helper()
			h.Add(OfNode(g.Take(), map[parsers.PodUID]bool{testkit.PodUID: true, other: true}), s.Node, s.Now)
			e := policy.Evidence{UID: testkit.PodUID}
			if h.Complete(&e, s.Node, s.Now); e.Facts[policy.FactTeardown].Truth != want {
				t.Errorf("%s, %s: teardown %s, want %s", name, step, e.Facts[policy.FactTeardown].Truth, want)
			}
		}
		g.Add(own(other, parsers.ReportOther, s.Ago(time.Second)))
		held("before", policy.No)
		for n := range MostClaims {
			g.Add(Claim{At: s.Now, Sighting: parsers.Sighting{
				UID: parsers.PodUID(fmt.Sprint(n)), Report: tc.report, Whole: tc.whole, Trusted: tc.trusted, PID: s.Node.KubeletID.PID,
			}})
		}
		g.Add(Claim{At: s.Now, Sighting: parsers.Sighting{
			UID: testkit.PodUID, Report: tc.report, Whole: tc.whole, Trusted: tc.trusted, PID: s.Node.KubeletID.PID,
		}})
		again := g.Take() // of a failed look
		for _, c := range again {
			g.Add(c)
		}
		held("after", tc.want)
		for range 12 {
			s.Now.Wall, s.Now.Boot = s.Now.Wall.Add(time.Minute), s.Now.Boot+time.Minute
			g.Add(own(other, parsers.ReportOther, s.Now))
			h.Add(g.Take(), s.Node, s.Now)
		}
		held("when it is over", policy.No)
	}
}

// TestDroppedAt checks that errors that were omitted when the journal was read back leave it unknown whether a pod is
// held.
func TestDroppedAt(t *testing.T) {
	s := testkit.DeadPod()
	var h Log
	var g Claims
	g.Add(Claim{At: s.Ago(time.Second), Sighting: parsers.Sighting{
		UID: testkit.PodUID, Report: parsers.ReportOther, PID: s.Node.KubeletID.PID, Whole: true, Trusted: true,
	}})
	g.Add(DroppedAt(s.Ago(time.Minute)))
	h.Add(OfNode(g.Take(), map[parsers.PodUID]bool{testkit.PodUID: true}), s.Node, s.Now)
	e := policy.Evidence{UID: testkit.PodUID}
	if h.Complete(&e, s.Node, s.Now); e.Facts[policy.FactTeardown].Truth != policy.Unknown {
		t.Errorf("teardown %s", e.Facts[policy.FactTeardown].Truth)
	}
}
