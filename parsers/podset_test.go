package parsers

import (
	"strings"
	"testing"
)

func TestPodSetInText(t *testing.T) {
	const uid, static = PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"), PodUID("7d1b5c0e9f8a4b3c2d1e0f9a8b7c6d5e")
	w := PodSet{uid: true, static: true}
	for text, want := range map[string]int{
		"":                                     0,
		string(uid):                            1,
		"podabc" + string(uid) + "def":         1,
		string(static) + string(uid):           2,
		strings.ToUpper(string(uid)):           0,
		string(uid)[:35] + "\n" + "0":          0,
		"-" + string(static) + "-":             1,
		strings.Repeat("0123456789abcdef", 64): 0,
	} {
		found := map[PodUID]bool{}
		w.InText([]byte(text), func(uid PodUID) { found[uid] = true })
		if len(found) != want {
			t.Errorf("%q: found %v, want %d", text, found, want)
		}
	}
}
