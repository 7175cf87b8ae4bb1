package parsers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// corpusRow is one line of testdata/kubelet-lines.tsv; ORIGIN.md describes the format.
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
			t.Errorf("%s: a line from a file is trusted", r.id)
		}
	}
}

// TestCorpusHints lists every row of the corpus that hints at a volume that the kubelet has not torn down.
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

// TestDetails checks the fields beside the UID.
func TestDetails(t *testing.T) {
	const volume = "/var/lib/kubelet/pods/" + testUID + "/volumes/kubernetes.io~nfs/v"
	rmdir := `E0331 15:47:45.892216    3416 kubelet_volumes.go:263] "Orphan pod" err="orphaned pod \"` + testUID + `\" found, but failed to rmdir() volume at path ` + volume + `: directory not empty"`
	held := `E0331 15:47:45.892216    3416 nestedpendingoperations.go:348] Operation for "{volumeName:x podName:` + testUID + ` nodeName:}" failed. No retries permitted until x (durationBeforeRetry 4s). Error: UnmountVolume.TearDown failed for volume "v" (UniqueName: "x") pod "` + testUID + `" (UID: "` + testUID + `") : remove ` + volume + `: directory not empty`
	early := `E0331 15:47:45.892216    3416 kubelet_volumes.go:225] orphaned pod "` + testUID + `" found, but error cannot delete directory ` + volume + ` occurred when trying to remove the volumes dir`
	for name, tc := range map[string]struct {
		line string
		want Sighting
	}{
		"raw":              {rmdir, Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "klog", PID: 3416, Path: volume}},
		"hint":             {held, Sighting{Report: ReportTeardown, Transport: "klog", PID: 3416, Path: volume, Volume: "x", Leaf: "volumes/kubernetes.io~nfs/v"}},
		"early":            {early, Sighting{Report: ReportOther, Kind: KindRemoval, Transport: "klog", PID: 3416, Path: volume}},
		"syslog":           {"Mar 31 15:47:45 n sh[1]: " + rmdir, Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "syslog", Program: "sh", PID: 3416, Path: volume}},
		"5424":             {"<27>1 - n kubelet 77 - - " + rmdir, Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "syslog-5424", Program: "kubelet", PID: 3416, Path: volume}},
		"tag's":            {"Mar 31 15:47:45 n kubelet[77]: kubelet_volumes.go:263] Orphaned pod \"" + testUID + "\" found,", Sighting{Report: ReportOther, Transport: "syslog", Program: "kubelet", PID: 77}},
		"fragment, podUID": {`"Orphaned pod found, but volumes are not cleaned up" podUID="` + testUID + `"`, Sighting{Report: ReportOther, Kind: KindVolumes, Transport: "fragment"}},
		"fragment, dir":    {`"Failed to remove orphaned pod dir" err="busy" podUID="` + testUID + `"`, Sighting{Report: ReportOther, Kind: KindRemoval, Transport: "fragment"}},
		"fragment, subdir": {`"Failed to remove orphaned pod subdir" err="busy" podUID="` + testUID + `" path="` + volume + `"`, Sighting{Report: ReportOther, Kind: KindRemoval, Transport: "fragment", Path: volume}},
		"fragment":         {"Orphaned pod \"" + testUID + "\" found,", Sighting{Report: ReportOther, Transport: "fragment"}},
		"grepped":          {"/var/log/x:" + rmdir, Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "klog", PID: 3416, Path: volume}},
		"no path":          {strings.Replace(rmdir, volume, "/x", 1), Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "klog", PID: 3416}},
		"other root": {
			strings.Replace(rmdir, "/var/lib/kubelet", "/data/pods/k8s", 1),
			Sighting{Report: ReportRmdirNotEmpty, Kind: KindRemoval, Transport: "klog", PID: 3416, Path: strings.Replace(volume, "/var/lib/kubelet", "/data/pods/k8s", 1)},
		},
	} {
		tc.want.UID, tc.want.Count = testUID, NoCount
		if s, ok := ParseLine(Line{Text: []byte(tc.line)}); !ok || s != tc.want {
			t.Errorf("%s: %+v, want %+v", name, s, tc.want)
		}
	}
	if _, ok := (&Parser{}).Parse(Line{Text: []byte(held)}); ok {
		t.Error("a hint was returned without being requested")
	}
}

// TestCorpusKinds checks the kind of each report of the corpus: the texts that release a pod, the two at V(3) that mean the
// opposite, and cut texts, which mean nothing.
func TestCorpusKinds(t *testing.T) {
	for _, r := range corpus(t) {
		s, ok := ParseLine(Line{Text: []byte(r.raw)})
		if !ok || !r.report {
			continue
		}
		want := KindRemoval
		if strings.Contains(r.raw, "volumes are not cleaned up") || strings.Contains(r.raw, "volumes not yet removed") ||
			strings.Contains(r.raw, "volumes are still mounted") {
			want = KindVolumes
		}
		if s.Kind != want && s.Kind != "" {
			t.Errorf("%s: kind %q, want %q\n%s", r.id, s.Kind, want, r.raw)
		}
		if s.Kind == "" && s.Report != ReportOther {
			t.Errorf("%s: no kind\n%s", r.id, r.raw)
		}
	}
}
