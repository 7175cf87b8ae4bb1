package policy

import (
	"testing"
	"time"
)

// TestElderWins checks that the parked directory of a static pod that came back is exchanged with the new one if the
// pod's volumes are in the parked one: a mount there, or a sandbox beside a new directory without volumes, proves it,
// since the kubelet sets up no volume twice. A new directory in use stays.
func TestElderWins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *scene)
		want   Decision
	}{
		{"no sandbox yet, nothing mounted", func(*scene) {}, Wait},
		{"a younger sandbox, no volume in the new one", func(s *scene) { s.ev.Facts[FactSandbox].Truth = Yes }, Return},
		{"a mount in the elder", func(s *scene) { s.ev.Facts[FactMounted].Truth, s.ev.Elder.Truth = Yes, Yes }, Return},
		{"a mount in the elder, a younger container", func(s *scene) {
			s.ev.Facts[FactMounted].Truth, s.ev.Elder.Truth = Yes, Yes
			s.ev.Facts[FactSandbox].Truth, s.ev.Facts[FactContainer].Truth = Yes, Yes
		}, Return},
		{"a younger container", func(s *scene) {
			s.ev.Facts[FactSandbox].Truth, s.ev.Facts[FactContainer].Truth = Yes, Yes
		}, Keep},
		{"a mount in the elder, a volume in the new one", func(s *scene) {
			s.ev.Facts[FactMounted].Truth, s.ev.Elder.Truth, s.ev.Facts[FactUsed].Truth = Yes, Yes, Yes
		}, Keep},
		{"a mount in the elder, the new one cannot be read", func(s *scene) {
			s.ev.Facts[FactMounted].Truth, s.ev.Elder.Truth, s.ev.Facts[FactUsed].Truth = Yes, Yes, Unknown
		}, Wait},
	} {
		s := deadScene()
		s.ev.Static = true
		s.ev.Facts[FactStaticPod].Truth, s.ev.Facts[FactRemade].Truth = Yes, Yes
		s.ev.Made.Add(s.now.Wall.Add(-time.Second))
		tt.change(s)
		p := Parked{At: s.ago(time.Minute), Kubelet: s.node.KubeletID}
		if v := JudgeParked(s.ev, s.node, p, s.rules, s.now); v.Decision != tt.want || v.Alive {
			t.Errorf("%s: %s, alive %t, want %s: %v", tt.name, v.Decision, v.Alive, tt.want, v.Why)
		}
	}
}

// TestStaticOpensNoBreaker checks that a static pod that came back and left again between two looks opens no breaker:
// its sandbox's annotation, an earlier look or its UID still shows what it was. Any other pod lived all along.
func TestStaticOpensNoBreaker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(e *Evidence)
		alive  bool
	}{
		{"of the API server", func(*Evidence) {}, true},
		{"of a manifest, by its sandbox", func(e *Evidence) { e.Static = true }, false},
		{"of a UID that a kubelet gives", func(e *Evidence) { e.UID = "0123456789abcdef0123456789abcdef" }, false},
		{"of a manifest, with a sandbox that is older than the parking", func(e *Evidence) {
			e.Static, e.Made = true, Span{}
			e.Made.Add(time.Unix(0, 1))
		}, true},
	} {
		s := deadScene()
		s.ev.Facts[FactSandbox].Truth = Yes
		s.ev.Made.Add(s.now.Wall)
		tt.change(&s.ev)
		p := Parked{At: s.ago(time.Minute), Kubelet: s.node.KubeletID}
		if v := JudgeParked(s.ev, s.node, p, s.rules, s.now); v.Alive != tt.alive {
			t.Errorf("%s: alive %t, want %t", tt.name, v.Alive, tt.alive)
		}
	}
}

// TestCutShortParkingOpensNoBreaker checks that a static pod that came back before a start found its parking
// unfinished opens no breaker. The record has the time of that start, although the pod was parked earlier.
func TestCutShortParkingOpensNoBreaker(t *testing.T) {
	s := deadScene()
	s.ev.Static, s.ev.Facts[FactSandbox].Truth = true, Yes
	s.ev.Made.Add(s.now.Wall.Add(-time.Minute))
	states := map[string]*EntryState{}
	Fold(states, Record{Kind: KindParking, Entry: "e", At: s.ago(2 * time.Minute), Kubelet: s.node.KubeletID})
	Fold(states, Record{Kind: KindParked, Entry: "e", At: s.ago(time.Second), Kubelet: s.node.KubeletID})
	seen := s.ev
	seen.Static, seen.Facts[FactStaticPod].Truth = false, Yes
	if Fold(states, Intent(Action{Kind: PutBack, Entry: "e", Evidence: &seen}, s.node, s.now)); !states["e"].Static {
		t.Error("an earlier look saw a static pod, and the entry has lost that")
	}
	if v := JudgeParked(s.ev, s.node, states["e"].Parked, s.rules, s.now); v.Alive {
		t.Errorf("the pod opens the breaker: %v", v.Why)
	}
}

// TestReturnedBlocksNoOther checks that a static pod that came back and waits for its volume forever keeps no other
// pod: it proves nothing about the others.
func TestReturnedBlocksNoOther(t *testing.T) {
	for _, static := range []bool{true, false} {
		s := deadScene()
		s.ev.Static, s.ev.Facts[FactRemade].Truth, s.ev.Facts[FactCgroup].Truth = static, Yes, Yes
		s.ev.Facts[FactUsed].Truth, s.ev.Facts[FactInUse].Truth = Unknown, No
		p := Parked{At: s.ago(time.Minute), Kubelet: s.node.KubeletID}
		if v := JudgeParked(s.ev, s.node, p, s.rules, s.now); v.Decision != Wait || v.Unproven() == static {
			t.Errorf("static %t: %s, unproven %t: %v", static, v.Decision, v.Unproven(), v.Why)
		}
	}
}
