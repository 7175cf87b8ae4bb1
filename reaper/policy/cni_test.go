package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const cniID = "02538aa466dd02538aa466dd02538aa466dd02538aa466dd02538aa466dd0253"

// cniScene is a file of a sandbox that is gone in every respect.
type cniScene struct {
	f    CNIFile
	node Node
	l    Listing
	r    Rules
	now  Instant
}

func goneFile() *cniScene {
	s := deadScene()
	c := &cniScene{
		f: CNIFile{
			Kind: CNICache, Name: "cbr0-" + cniID + "-eth0", Container: cniID, UID: testUID,
			Changed: s.now.Wall.Add(-25 * time.Hour),
		},
		node: s.node, r: s.rules, now: s.now,
		l: Listing{Since: s.ago(6 * time.Minute), IDs: map[string]bool{}},
	}
	c.r.CNIOlderThan = 24 * time.Hour
	for n := range NumCNIFacts {
		c.f.Set(n, No, "test", "")
	}
	c.f.Set(CNITied, Yes, "test", "")
	return c
}

func (s *cniScene) judge() Verdict { return JudgeCNI(s.f, s.node, s.l, s.r, s.now) }

func TestJudgeCNI(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*cniScene)
		want   Decision
		why    []Reason
	}{
		{"gone", func(*cniScene) {}, Reap, nil},
		{"tied to nobody", func(s *cniScene) { s.f.Set(CNITied, No, "", "") }, Keep, []Reason{ReasonUntied}},
		{"listed", func(s *cniScene) { s.f.Set(CNIListed, Yes, "", "") }, Keep, []Reason{ReasonSandbox}},
		{"not answered", func(s *cniScene) { s.f.Set(CNIListed, Unknown, "", "") }, Keep, []Reason{ReasonRuntimeUnknown}},
		{"an empty answer", func(s *cniScene) { s.f.Set(CNIListed, Unknown, "", ""); s.node.RuntimeLists.Truth = No }, Keep, []Reason{ReasonRuntimeEmpty}},
		{"a task that the runtime does not list", func(s *cniScene) { s.f.Set(CNIAlive, Yes, "", "") }, Keep, []Reason{ReasonInUse}},
		{"its namespace is there", func(s *cniScene) { s.f.Set(CNINetns, Yes, "", "") }, Keep, []Reason{ReasonNetns}},
		{"its namespace is not known", func(s *cniScene) { s.f.Set(CNINetns, Unknown, "", "") }, Keep, []Reason{ReasonNetns}},
		{"foreign", func(s *cniScene) { s.f.Set(CNIForeign, Yes, "", "") }, Keep, []Reason{ReasonForeign}},
		{"an hour old", func(s *cniScene) { s.f.Changed = s.now.Wall.Add(-time.Hour) }, Wait, []Reason{ReasonYoung}},
		{"an hour old, of a pod that we took", func(s *cniScene) { s.f.Changed = s.now.Wall.Add(-time.Hour); s.f.Reaped = true }, Reap, nil},
		{"from the future", func(s *cniScene) { s.f.Changed = s.now.Wall.Add(time.Hour) }, Wait, []Reason{ReasonYoung, ReasonHold}},
		{"of no age", func(s *cniScene) { s.f.Changed = time.Time{} }, Keep, []Reason{ReasonYoung}},
		{"first look", func(s *cniScene) { s.l = Listing{} }, Wait, []Reason{ReasonHold}},
		{"hold half over", func(s *cniScene) { s.l.Since = deadScene().ago(2 * time.Minute) }, Wait, []Reason{ReasonHold}},
		{"hold of another boot", func(s *cniScene) { s.l.Since.BootID = "boot-0" }, Wait, []Reason{ReasonHold}},
		{"listed during the hold", func(s *cniScene) { s.l.IDs[cniID] = true }, Wait, []Reason{ReasonHold}},
		{"kubelet has just started", func(s *cniScene) { s.node.KubeletID.Start = s.now.Boot - time.Minute }, Wait, []Reason{ReasonKubeletStarting}},
		{"no kubelet", func(s *cniScene) { s.node.Kubelet = Fact{} }, Keep, []Reason{ReasonKubeletUnknown}},
		{"broken, its sandbox is not ready", func(s *cniScene) {
			s.f.Broken, s.f.Changed = true, s.now.Wall.Add(-time.Hour)
			s.f.Set(CNIListed, Yes, "", "")
			s.f.Set(CNINetns, Yes, "", "")
			s.l.IDs[cniID] = true
		}, Reap, nil},
		{"broken, its sandbox is ready", func(s *cniScene) {
			s.f.Broken = true
			s.f.Set(CNIListed, Yes, "", "")
			s.f.Set(CNIReady, Yes, "", "")
		}, Keep, []Reason{ReasonSandbox}},
		{"broken, and whether its sandbox is ready is not known", func(s *cniScene) {
			s.f.Broken = true
			s.f.Set(CNIListed, Yes, "", "")
			s.f.Set(CNIReady, Unknown, "", "")
		}, Keep, []Reason{ReasonSandbox}},
		{"broken, just being written", func(s *cniScene) {
			s.f.Broken, s.f.Changed = true, s.now.Wall.Add(-time.Second)
			s.f.Set(CNIListed, Yes, "", "")
		}, Wait, []Reason{ReasonYoung, ReasonHold}},
		{"an address of a sandbox that is not ready", func(s *cniScene) {
			s.f.Kind, s.f.Broken = CNIAddress, true
			s.f.Set(CNIListed, Yes, "", "")
		}, Keep, []Reason{ReasonSandbox}},
		{"waived", func(s *cniScene) {
			s.r.Waive, s.node = true, Node{}
			s.l = Listing{}
			s.f.Set(CNIListed, Unknown, "", "")
		}, Reap, []Reason{ReasonWaived}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goneFile()
			c.change(s)
			v := s.judge()
			var why []Reason
			for _, w := range v.Why {
				why = append(why, w.Reason)
			}
			if v.Decision != c.want || !slices.Equal(why, c.why) {
				t.Errorf("%s for %v, want %s for %v", v.Decision, why, c.want, c.why)
			}
		})
	}
}

// TestCNIDoubtKeeps: whatever a file's facts are, one that turns to Unknown or to alive
// never lets it go where it would have stayed.
func TestCNIDoubtKeeps(t *testing.T) {
	alive := [NumCNIFacts]Truth{CNITied: No, CNIListed: Yes, CNIReady: Yes, CNIAlive: Yes, CNINetns: Yes, CNIForeign: Yes}
	for _, broken := range []bool{false, true} {
		for mix := range 729 { // 3 to the sixth
			s := goneFile()
			s.f.Broken = broken
			for n, rest := CNIFactName(0), mix; n < NumCNIFacts; n, rest = n+1, rest/3 {
				s.f.Facts[n].Truth = Truth(rest % 3)
			}
			before := s.judge().Decision
			for n := range NumCNIFacts {
				for _, turn := range []Truth{Unknown, alive[n]} {
					if broken && n == CNIListed && turn == Yes && s.f.Facts[CNIReady].Truth == No {
						continue // that is what a repair is for
					}
					after := *s
					after.f.Facts[n].Truth = turn
					if d := after.judge().Decision; before != Reap && d == Reap {
						t.Errorf("broken=%t %s: %s turned %s takes it from %s to reap", broken, truths(s.f), n, turn, before)
					}
				}
			}
			if before == Reap && s.f.Facts[CNIReady].Truth == Yes && s.f.Facts[CNIListed].Truth != No {
				t.Errorf("broken=%t: taken while its sandbox is ready", broken)
			}
		}
	}
	if v := JudgeCNI(CNIFile{}, Node{}, Listing{}, Rules{}, Instant{}); v.Decision != Keep {
		t.Errorf("nothing is known, and the verdict is %s", v.Decision)
	}
}

func truths(f CNIFile) (s string) {
	for n := range NumCNIFacts {
		s += fmt.Sprintf("%s=%s ", n, f.Facts[n].Truth)
	}
	return s
}

// TestOutlookOfCNI: the file of a container that lives is no matter for a person; a pod's open
// file is.
func TestOutlookOfCNI(t *testing.T) {
	inUse := []Why{{Reason: ReasonWaived}, {Reason: ReasonInUse}}
	if OutlookOf(Keep, inUse) != OutlookLook || OutlookOfCNI(Keep, inUse) != OutlookAlive {
		t.Errorf("in use: pod %d, file %d", OutlookOf(Keep, inUse), OutlookOfCNI(Keep, inUse))
	}
	for _, r := range []Reason{ReasonNetns, ReasonForeign, ReasonUntied} {
		if why := []Why{{Reason: r}}; OutlookOfCNI(Keep, why) != OutlookOf(Keep, why) {
			t.Errorf("%s differs", r)
		}
	}
}

// TestListings: what counts is what no whole answer has listed for a hold, and what lived
// long ago is forgotten.
func TestListings(t *testing.T) {
	const hold = 5 * time.Minute
	at := func(minutes int) Instant {
		d := time.Duration(minutes) * time.Minute
		return Instant{Wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(d), BootID: "boot-1", Boot: time.Hour + d}
	}
	var l Listings
	l.Learn([]string{"old"}, Yes, hold, at(0))
	for minute := 1; minute <= 12; minute++ {
		l.Learn([]string{"new"}, Yes, hold, at(minute))
		if since, ok := at(minute).Since(l.Older.Since); minute >= 5 && (!ok || since < hold) {
			t.Errorf("minute %d: the listing that counts is only %s old", minute, since)
		}
		if minute < 5 && !l.Older.IDs["old"] {
			t.Errorf("minute %d: what was listed during the hold is forgotten", minute)
		}
	}
	if l.Older.IDs["old"] || !l.Older.IDs["new"] {
		t.Errorf("after two holds %v", l.Older.IDs)
	}
	for name, broken := range map[string]func(*Listings){
		"no answer":    func(l *Listings) { l.Learn(nil, Unknown, hold, at(13)) },
		"empty answer": func(l *Listings) { l.Learn(nil, No, hold, at(13)) },
		"another boot": func(l *Listings) {
			now := at(13)
			now.BootID = "boot-2"
			l.Learn([]string{"new"}, Yes, hold, now)
		},
	} {
		m := l
		broken(&m)
		if since, ok := at(13).Since(m.Older.Since); ok && since > 0 {
			t.Errorf("%s: the row goes on, %s old", name, since)
		}
	}
}

// TestSweptRecord: one record for a batch, whatever its files are called, and with the runtime
// that the broken ones of it hinder.
func TestSweptRecord(t *testing.T) {
	file := func(name, pod, runtime string) CNIFile {
		return CNIFile{Kind: CNICache, Dir: "/var/lib/cni/results", Name: name, Namespace: "shop", PodName: pod, ID: FileID{Size: 10}, Broken: runtime != "", Runtime: runtime}
	}
	outs := []CNIOutcome{
		{File: file("a", "web-0", ""), Result: Done},
		{File: file("b", "web-1", "containerd 1.6.20"), Result: Done},
		{File: file("c", "", "containerd 1.6.20"), Result: Done},
		{File: file("d\nMESSAGE=forged\x1b[2J", "web-2", ""), Result: Refused, Err: "it was changed"},
		{File: file("e", "web-3", "cri-o 1.30.1"), Result: Failed, Err: "EIO"},
		{File: file("f", "web-4", ""), Result: Gone},
	}
	r := Swept("cni-1", outs, Node{}, Instant{})
	if got := r.Taken[string(CNICache)]; got.Entries != 3 || got.Bytes != 30 || !slices.Equal(r.Pods, []string{"shop/web-0", "shop/web-1"}) {
		t.Errorf("taken %+v of %q", got, r.Pods)
	}
	if r.Repaired != 2 || !slices.Equal(r.Runtimes, []string{"containerd 1.6.20"}) {
		t.Errorf("%d repaired for %q", r.Repaired, r.Runtimes)
	}
	if want := `/var/lib/cni/results/"d\nMESSAGE=forged\x1b[2J": it was changed (and 1 more)`; r.Err != want {
		t.Errorf("error %q, want %q", r.Err, want)
	}
}
