package parsers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// corpusRow is one line of testdata/kubelet-lines.tsv, whose format ORIGIN.md tells.
type corpusRow struct {
	id, transport string
	report        bool
	uid, reason   string
	count         int
	raw           string
}

func corpus(tb testing.TB) []corpusRow {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "kubelet-lines.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	var rows []corpusRow
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		c := strings.SplitN(line, "\t", 9)
		if i == 0 {
			continue
		}
		if len(c) != 9 {
			tb.Fatalf("line %d has %d columns", i+1, len(c))
		}
		count := NoCount
		if c[7] != "" {
			if count, err = strconv.Atoi(c[7]); err != nil {
				tb.Fatal(err)
			}
		}
		rows = append(rows, corpusRow{c[0], c[3], c[4] == "yes", c[5], c[6], count, c[8]})
	}
	if len(rows) < 278 {
		tb.Fatalf("only %d rows", len(rows))
	}
	return rows
}

func TestCorpus(t *testing.T) {
	for _, r := range corpus(t) {
		s, ok := ParseLine(Line{Text: []byte(r.raw)})
		if ok && s.Report == ReportTeardown && !r.report {
			ok = false // A hint of another kind; TestCorpusHints has them.
		}
		if ok != r.report {
			t.Errorf("%s (%s): report %v, want %v\n%s", r.id, r.transport, ok, r.report, r.raw)
			continue
		}
		if !ok {
			continue
		}
		if string(s.UID) != r.uid || string(s.Report) != r.reason || s.Count != r.count {
			t.Errorf("%s (%s): got %s %s %d, want %s %s %d\n%s", r.id, r.transport, s.UID, s.Report, s.Count, r.uid, r.reason, r.count, r.raw)
		}
		if s.Trusted {
			t.Errorf("%s: a line of a file is trusted", r.id)
		}
	}
}

// TestCorpusHints names every row of the corpus that hints at a volume which the
// kubelet still holds.
func TestCorpusHints(t *testing.T) {
	want := map[string]string{
		"k0097": "bb07fd8d-b737-11e9-a203-0022ac9722f5",
		"k0182": "517c6ac3-633e-4bd5-a678-0e23742ae13b",
		"k0183": "f2977579-2910-11e7-83bd-000d3a2709aa",
	}
	for _, r := range corpus(t) {
		s, ok := ParseLine(Line{Text: []byte(r.raw)})
		got := ""
		if ok && s.Report == ReportTeardown {
			got = string(s.UID)
		}
		if got != want[r.id] {
			t.Errorf("%s: hint for %q, want %q", r.id, got, want[r.id])
		}
	}
}

func TestRecorded(t *testing.T) {
	for _, tc := range []struct {
		file     string
		reports  int
		hints    int
		distinct int
	}{
		{"kubelet-1.19.log", 175, 0, 30},
		{"kubelet-1.30.log", 85, 0, 22},
		{"kubelet-1.30.json.log", 4, 0, 1},
		{"kubelet-1.30-restart.log", 0, 12, 2},
	} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", tc.file))
		if err != nil {
			t.Fatal(err)
		}
		reports, hints, uids := 0, 0, map[PodUID]bool{}
		for line := range bytes.Lines(data) {
			s, ok := ParseLine(Line{Text: bytes.TrimSuffix(line, []byte("\n"))})
			switch {
			case !ok:
				continue
			case s.Report == ReportTeardown:
				hints++
			default:
				reports++
			}
			uids[s.UID] = true
		}
		if reports != tc.reports || hints != tc.hints || len(uids) != tc.distinct {
			t.Errorf("%s: %d reports, %d hints, %d pods; want %d, %d, %d", tc.file, reports, hints, len(uids), tc.reports, tc.hints, tc.distinct)
		}
	}
}
