package policy

import "testing"

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
