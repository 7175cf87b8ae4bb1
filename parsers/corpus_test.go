package parsers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestCorpus reads every line of testdata/kubelet-lines.tsv; ORIGIN.md describes the columns.
func TestCorpus(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "kubelet-lines.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		c := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 10)
		if c[0] == "id" {
			continue
		}
		rows++
		id, transport, want, raw := c[0], c[3], c[4] == "yes", c[9]
		var got *Found
		unread := 0
		for f, err := range Scan(strings.NewReader(raw), &unread) {
			if err != nil {
				t.Fatal(err)
			}
			got = &f
		}
		if (got != nil) != want {
			t.Errorf("%s (%s): a report: %v, want %v\n%s", id, transport, got != nil, want, raw)
			continue
		}
		if !want {
			continue
		}
		count := NoCount
		if c[8] != "" {
			count, _ = strconv.Atoi(c[8])
		}
		if string(got.UID) != c[5] || got.Reason != c[6] || got.Kind.String() != c[7] || got.Count != count {
			t.Errorf("%s (%s): %s %s %s %d, want %s %s %s %d\n%s", id, transport, got.UID, got.Reason, got.Kind, got.Count, c[5], c[6], c[7], count, raw)
		}
	}
	if rows < 281 {
		t.Fatalf("only %d rows", rows)
	}
}

// TestRecorded reads whole logs of real kubelets.
func TestRecorded(t *testing.T) {
	for _, test := range []struct {
		file     string
		reports  int
		distinct int
		unread   int
	}{
		{"kubelet-1.19.log", 175, 30, 4}, {"kubelet-1.30.log", 85, 22, 9}, {"kubelet-1.30.json.log", 4, 1, 0}, {"kubelet-1.30-restart.log", 0, 0, 0},
	} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", test.file))
		if err != nil {
			t.Fatal(err)
		}
		reports, uids, unread := 0, map[string]bool{}, 0
		for f, err := range Scan(bytes.NewReader(data), &unread) {
			if err != nil || !f.Strict || f.Kind == None {
				t.Fatalf("%s: %+v, %v", test.file, f, err)
			}
			reports++
			uids[string(f.UID)] = true
		}
		if reports != test.reports || len(uids) != test.distinct || unread != test.unread {
			t.Errorf("%s: %d reports of %d pods, %d unread", test.file, reports, len(uids), unread)
		}
	}
}
