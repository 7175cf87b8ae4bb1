package parsers

import (
	"strings"
	"testing"
)

// TestTruncatedLines cuts each form at each byte: a line that still holds the UID to
// its closing quote names that pod or none, never another, and never with a number of
// errors that was cut.
func TestTruncatedLines(t *testing.T) {
	const syslog = "Mar 31 15:47:45 dgx1 kubelet[3416]: "
	for _, f := range forms() {
		line := syslog + klogLine(f, testUID)
		for n := range line {
			for _, mark := range []string{"", ">", "…", "..."} {
				s, ok := parse(line[:n] + mark)
				if !ok {
					continue
				}
				if s.UID != testUID || (s.Count != f.count && s.Count != NoCount) || !strings.Contains(line[:n], testUID) {
					t.Errorf("%s cut at %d: %+v\n%s", f.name, n, s, line[:n]+mark)
				}
			}
		}
		// Where the whole report is there but its end, it still names the pod.
		if i := strings.Index(line, "found, but"); i > 0 && f.reason != ReportTeardown && !strings.Contains(line, "podUID") {
			if s, ok := parse(line[:i+len("found, but")]); !ok || s.Report != ReportOther {
				t.Errorf("%s cut after \"found, but\": %v %+v", f.name, ok, s)
			}
		}
	}
}
