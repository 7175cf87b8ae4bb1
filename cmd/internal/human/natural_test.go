package human

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestNatural(t *testing.T) {
	want := []string{"", "10", "a", "a01", "a1", "a1b", "a2", "a10", "b-2-10", "b-10-2", "ä"}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, Natural)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
