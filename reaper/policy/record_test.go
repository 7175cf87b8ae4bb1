package policy

import "testing"

// TestRecoverParking: a crash between the intent and its outcome. What lies in quarantine was
// parked; what does not has never left.
func TestRecoverParking(t *testing.T) {
	e := EntryState{Entry: "u.1", UID: "u", Phase: PhaseParking, ID: DirID{Dev: 1, Ino: 2, Btime: 3}, Why: []Why{{Reason: ReasonMounted}}}
	for inQuarantine, want := range map[bool]Kind{true: KindParked, false: KindNotParked} {
		r, a := Recover(e, inQuarantine, Instant{})
		if a != nil || r == nil || r.Kind != want || r.Entry != e.Entry || r.ID != e.ID || len(r.Why) != 1 || (r.Undo != "") != inQuarantine {
			t.Errorf("in quarantine %t: %+v, %+v", inQuarantine, r, a)
		}
	}
}

// TestFullName: what is not known leaves no stray slash.
func TestFullName(t *testing.T) {
	for _, c := range [][3]string{{"shop", "cart-0", "shop/cart-0"}, {"", "cart-0", "cart-0"}, {"shop", "", ""}, {"", "", ""}} {
		if got := FullName(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q give %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestStoppedIsNoFailure: a program that is told to end calls no person for what it has not begun.
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
			t.Errorf("%s, stopped: %v: told %q, want %q", c.kind, c.stopped, got, c.want)
		}
	}
}
