package policy

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestRecoverParking checks the recovery after a crash between the intent and its outcome: an entry in quarantine was
// parked, and one that is not there was never moved.
func TestRecoverParking(t *testing.T) {
	e := EntryState{Entry: "u.1", UID: "u", Phase: PhaseParking, ID: DirID{Dev: 1, Ino: 2, Btime: 3}, Why: []Why{{Reason: ReasonMounted}}}
	for inQuarantine, want := range map[bool]Kind{true: KindParked, false: KindNotParked} {
		r, a := Recover(e, inQuarantine, Instant{})
		if a != nil || r == nil || r.Kind != want || r.Entry != e.Entry || r.ID != e.ID || len(r.Why) != 1 || (r.Undo != "") != inQuarantine {
			t.Errorf("in quarantine %t: %+v, %+v", inQuarantine, r, a)
		}
	}
}

// TestFullName checks that an unknown part of the name leaves no stray slash.
func TestFullName(t *testing.T) {
	for _, c := range [][3]string{{"shop", "cart-0", "shop/cart-0"}, {"", "cart-0", "cart-0"}, {"shop", "", ""}, {"", "", ""}} {
		if got := FullName(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q give %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestStoppedIsNoFailure checks that a stopped program does not ask for the operator because of actions that it never
// began.
func TestStoppedIsNoFailure(t *testing.T) {
	for _, c := range []struct {
		kind    ActionKind
		stopped bool
		want    Kind
	}{{Strip, true, ""}, {Purge, true, ""}, {PutBack, true, ""}, {Strip, false, KindFailed}, {Park, true, KindNotParked}} {
		var got Kind
		for _, r := range Recorded(Outcome{Action: Action{Kind: c.kind, UID: "u"}, Result: Refused, Stopped: c.stopped}, Node{}, Instant{}) {
			got = r.Kind
		}
		if got != c.want {
			t.Errorf("%s, stopped: %v: recorded as %q, want %q", c.kind, c.stopped, got, c.want)
		}
	}
}

// TestStoppedKeepsWhatWasTaken checks that the ledger records what was removed before the program was stopped or the
// action failed. The record has the text of vol_data.json only then.
func TestStoppedKeepsWhatWasTaken(t *testing.T) {
	text := map[string]string{"volumes/kubernetes.io~csi/pv/vol_data.json": "{}"}
	taken := map[contents.Class]Tally{contents.ClassSkeleton: {Entries: 3, Bytes: 4096}}
	for _, c := range []struct {
		kind    ActionKind
		take    contents.ClassSet
		stopped bool
		want    Kind
		phase   Phase
	}{
		{Strip, contents.TakeStrip, true, KindStripping, PhaseStripping},
		{Purge, contents.TakeAll, true, KindPurging, PhasePurging},
		{Strip, contents.TakeStrip, false, KindFailed, PhaseStripping},
		{Purge, contents.TakeAll, false, KindFailed, PhasePurging},
	} {
		a := Action{Kind: c.kind, UID: "u", Entry: "u.1", Take: c.take}
		states := map[string]*EntryState{}
		Fold(states, Intent(a, Node{}, Instant{}))
		records := Recorded(Outcome{Action: a, Result: Failed, Stopped: c.stopped, Taken: taken, VolData: text}, Node{}, Instant{})
		if len(records) != 1 || records[0].Kind != c.want || records[0].NeedsPerson() == c.stopped {
			t.Fatalf("%s, stopped %v: %+v", c.kind, c.stopped, records)
		}
		if records[0].Taken["skeleton"].Entries != 3 {
			t.Errorf("%s, stopped %v: removed %v", c.kind, c.stopped, records[0].Taken)
		}
		Fold(states, records[0])
		if s := states["u.1"]; s.Phase != c.phase || len(s.VolData) != 1 || s.Taken != nil || s.TakeAll != (c.kind == Purge) {
			t.Errorf("%s, stopped %v: %+v", c.kind, c.stopped, s)
		}
	}
}

// TestAskedKeepsUser checks that an operator's action that a crash interrupted keeps that operator's name when
// another process ends it.
func TestAskedKeepsUser(t *testing.T) {
	alice := &User{Login: "alice", SudoUser: "alice"}
	for _, c := range []struct {
		action Action
		want   Kind
	}{
		{Action{Kind: PutBack, UID: "u", Entry: "u.1", ByPerson: true}, KindRestored},
		{Action{Kind: Park, UID: "u", Entry: "u.1"}, KindParked},
		{Action{Kind: Purge, UID: "u", Entry: "u.1", Take: contents.TakeAll, ByPerson: true}, KindRemoved},
	} {
		intent := Intent(c.action, Node{}, Instant{})
		intent.By = alice // as the ledger writes it
		states := map[string]*EntryState{}
		Fold(states, intent)
		e := *states["u.1"]
		r, a := Recover(e, true, Instant{})
		if c.action.Kind == Purge {
			dead := deadScene()
			_, a = JudgeEntry(dead.ev, dead.node, e, dead.rules, dead.now)
		}
		if a != nil {
			r = &Recorded(Outcome{Action: *a, Result: Done}, Node{}, Instant{})[0]
		}
		if r == nil || r.Kind != c.want || r.By != alice {
			t.Errorf("%s: %+v, %+v", c.action.Kind, r, a)
		}
		e.Phase = PhaseConfirmed // confirmed on alice's request; a later purge is not hers
		dead := deadScene()
		if _, a := JudgeEntry(dead.ev, dead.node, e, dead.rules, dead.now); a == nil || a.By != nil {
			t.Errorf("%s: later purge: %+v", c.action.Kind, a)
		}
		intent.By = nil // the daemon's intent
		if Fold(states, intent); states["u.1"].By != nil {
			t.Errorf("%s: the daemon's action is by %s", c.action.Kind, states["u.1"].By)
		}
	}
}
