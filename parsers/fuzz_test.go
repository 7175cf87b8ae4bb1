package parsers

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzKubelet checks on any bytes, as lines and as a log, that nothing panics, that Scan and Parser find the same,
// and that each UID is valid and in the input, as text or as an array of numbers.
func FuzzKubelet(f *testing.F) {
	for _, r := range corpus(f) {
		f.Add([]byte(r.raw))
	}
	for _, line := range hostile() {
		f.Add([]byte(line))
	}
	for _, wrap := range transports() {
		f.Add([]byte(wrap(klogLine(forms()[6], testUID))))
	}
	for _, name := range []string{"kubelet-1.30.json.log", "kubelet-1.30-restart.log"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("E0831 14:21:49.324206    3416 kubelet_volumes.go:263] \"Orphan pod\" err=<\n\torphaned pod \"" + testUID + "\" found, but x\n > x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(s Sighting, text []byte) {
			if uid, ok := ParsePodUID(string(s.UID)); !ok || uid != s.UID {
				t.Errorf("%q is not a UID", s.UID)
			}
			if !bytes.Contains(text, []byte(s.UID)) && !holdsNumbers(text, string(s.UID)) {
				t.Errorf("%q is not in the input", s.UID)
			}
			if s.Count < NoCount || s.Report == "" || s.Transport == "" {
				t.Errorf("incomplete: %+v", s)
			}
		}
		journal := &JournalFields{Unit: "kubelet.service"}
		for line := range bytes.Lines(data) {
			line = bytes.TrimSuffix(line, newline)
			s, ok := ParseLine(Line{Text: line})
			if ok {
				check(s, line)
			}
			if ok && s.Trusted {
				t.Error("a line from a file is trusted")
			}
			if s, ok := ParseLine(Line{Text: line, Journal: journal}); ok {
				check(s, line)
			}
			if ok && !Interesting(line) {
				t.Errorf("no prefilter lets %q pass", line)
			}
		}
		got := scan(t, bytes.NewReader(data), Parser{Hints: true})
		for _, s := range got {
			check(s.Sighting, data)
		}
		sameFound(t, "scan", got, lineByLine(data, Parser{Hints: true}))
	})
}

// holdsNumbers reports whether text contains s as an array of numbers.
func holdsNumbers(text []byte, s string) bool {
	numbers := make([]int, len(s))
	for i := range len(s) {
		numbers[i] = int(s[i])
	}
	want, err := json.Marshal(numbers)
	if err != nil {
		panic(err)
	}
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, string(text))
	return strings.Contains(plain, strings.Trim(string(want), "[]"))
}

// FuzzParsePodUID compares ParsePodUID with its definition, and checks that a UID is one component of a path.
func FuzzParsePodUID(f *testing.F) {
	f.Add(testUID)
	f.Add("7f8e47b71a845b4eb634a44a94e20069")
	for _, bad := range badUIDs() {
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, s string) {
		uid, ok := ParsePodUID(s)
		shape := strings.Map(func(r rune) rune {
			switch {
			case strings.ContainsRune("0123456789abcdef", r):
				return 'h'
			case r == 'h':
				return '!' // neither a digit nor a sign
			}
			return r
		}, s)
		h := strings.Repeat("h", 32)
		want := shape == h || shape == h[:8]+"-"+h[:4]+"-"+h[:4]+"-"+h[:4]+"-"+h[:12]
		if ok != want || (ok && string(uid) != s) || (!ok && uid != "") {
			t.Errorf("ParsePodUID(%q) = %q, %v", s, uid, ok)
		}
		if ok && filepath.Base(string(uid)) != s {
			t.Errorf("%q is not a path component", s)
		}
	})
}
