package parsers

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestContinuedRecords holds that a piece of a line that a container runtime cut is no
// line, wherever the pieces lie.
func TestContinuedRecords(t *testing.T) {
	const at = "2024-08-31T14:21:49.324206000Z "
	report := klogLine(forms()[6], testUID)
	piece := func(n int) string {
		return at + "stderr P I0831 14:21:49.324206 1 prober.go:1] x " + strings.Repeat("x", n) + "\n"
	}
	filler := strings.Repeat(at+"stderr F y\n", 100)
	for name, tc := range map[string]struct {
		data string
		want int
	}{
		"full":                        {at + "stderr F x\n" + at + "stderr F " + report, 1},
		"after a partial":             {piece(16384) + at + "stderr F " + report, 0},
		"after the end of a partial":  {piece(16384) + at + "stderr F end\n" + at + "stderr F " + report, 1},
		"after two partials":          {piece(16384) + piece(16384) + at + "stderr F " + report, 0},
		"after a partial of stdout":   {strings.Replace(piece(100), "stderr", "stdout", 1) + at + "stderr F " + report, 1},
		"stdout between":              {piece(100) + at + "stdout F x\n" + at + "stderr F " + report, 0},
		"another line between":        {piece(100) + "x\n\n" + at + "stderr F " + report, 0},
		"partial of many blocks":      {piece(2<<20) + at + "stderr F " + report, 0},
		"full record of many blocks":  {filler + strings.Replace(piece(2<<20), "stderr P", "stderr F", 1) + at + "stderr F " + report, 1},
		"partial report":              {at + "stderr P " + report + "\n" + at + "stderr F " + report, 1},
		"partial before a block ends": {strings.Repeat(filler, blockSize/len(filler)) + piece(8192) + at + "stderr F " + report + "\n" + filler, 0},
	} {
		if got := scan(t, strings.NewReader(tc.data), Options{}); len(got) != tc.want {
			t.Errorf("%s: %d sightings, want %d", name, len(got), tc.want)
		}
		if strings.Contains(name, "many blocks") {
			continue // A Parser's caller bounds the lines.
		}
		if got := lineByLine([]byte(tc.data), Options{}); len(got) != tc.want {
			t.Errorf("%s, line by line: %d sightings, want %d", name, len(got), tc.want)
		}
		// With uninteresting lines left out a report may be missed, and none is made up.
		p, n := NewParser(Options{}), 0
		for line := range strings.Lines(tc.data) {
			if text := []byte(line); Interesting(text) {
				if s, ok := p.Parse(Line{Text: bytes.TrimSuffix(text, newline), CatchUp: true}); ok && s.CatchUp {
					n++
				}
			}
		}
		if n > tc.want {
			t.Errorf("%s, interesting lines: %d sightings, want %d", name, n, tc.want)
		}
	}
}

// TestBlocks holds klog's form of an error with a newline: its first line counts where
// the line before opened it, and no other.
func TestBlocks(t *testing.T) {
	head := `E0831 14:21:49.324206    3416 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=<` + "\n"
	first := "\torphaned pod \"" + testUID + "\" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/" + testUID + "/volumes/x~y/a\n"
	evil := "\torphaned pod \"" + otherUID + "\" found, but error occurred when trying to remove the volumes dir: not a directory\n"
	sys := func(pid int, s string) string {
		return fmt.Sprintf("Aug 31 14:21:49 n kubelet[%d]: %s", pid, s)
	}
	for name, tc := range map[string]struct {
		data string
		want string
	}{
		"raw":                    {head + first + evil + " > numErrs=1\n", testUID},
		"orphan pod":             {strings.Replace(head, msgManyErrors, msgOrphanPod, 1) + first + evil, testUID},
		"syslog":                 {sys(1, head) + sys(1, first) + sys(1, evil), testUID},
		"syslog, escaped":        {sys(1, head) + sys(1, strings.Replace(first, "\t", "#011", 1)), testUID},
		"one line, escaped":      {sys(1, strings.TrimSuffix(head, "\n")+"#012#011"+first[1:len(first)-1]+"#012#011"+evil[1:len(evil)-1]+"#012 > numErrs=1\n"), testUID},
		"another process":        {sys(1, head) + sys(2, first), ""},
		"another program":        {sys(1, head) + "Aug 31 14:21:49 n k3s[1]: " + first, ""},
		"another transport":      {sys(1, head) + first, ""},
		"another line between":   {head + "x\n" + first, ""},
		"no head":                {first, ""},
		"second line only":       {head + "\tx\n" + evil, ""},
		"head of another file":   {strings.Replace(head, "kubelet_volumes", "prober", 1) + first, ""},
		"head of another logger": {strings.Replace(sys(1, head), "kubelet[1]", "logger[1]", 1) + strings.Replace(sys(1, first), "kubelet[1]", "logger[1]", 1), ""},
		"head quoted":            {"x " + head + first, ""},
		"no tab":                 {sys(1, head) + sys(1, first[1:]), ""},
	} {
		for kind, got := range map[string][]Found{
			"scanner":   scan(t, strings.NewReader(tc.data), Options{}),
			"parser":    lineByLine([]byte(tc.data), Options{}),
			"following": lineByLine(whatToHandOver([]byte(tc.data)), Options{}),
		} {
			uid := ""
			if len(got) > 0 {
				uid = string(got[0].UID)
			}
			if uid != tc.want || len(got) > 1 {
				t.Errorf("%s, %s: %+v, want %q", name, kind, got, tc.want)
			}
		}
	}
	if OpensBlock([]byte(first)) || !Interesting([]byte(`x" err=<`)) {
		t.Error("what opens a block")
	}
	p := NewParser(Options{})
	j := &JournalFields{Unit: "kubelet.service", PID: 3416, Identifier: "kubelet"}
	p.Parse(Line{Text: []byte(strings.TrimSpace(head)), Journal: j})
	if s, ok := p.Parse(Line{Text: []byte(strings.TrimSuffix(first, "\n")), Journal: j}); !ok || s.UID != testUID || !s.Trusted {
		t.Errorf("journal: %+v", s)
	}
}

// whatToHandOver leaves out the lines that a source may leave out.
func whatToHandOver(data []byte) []byte {
	var kept []byte
	opened := false
	for line := range bytes.Lines(data) {
		text := bytes.TrimSuffix(line, newline)
		if opened || Interesting(text) {
			kept = append(kept, line...)
		}
		opened = OpensBlock(text)
	}
	return kept
}
