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
