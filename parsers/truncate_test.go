package parsers

import (
	"strings"
	"testing"
)

// TestTruncatedLines cuts each form at each byte: a line with the UID up to its closing quote still reports that pod,
// and no cut line reports another pod or a truncated count or reason. A pager's mark may make it no report.
func TestTruncatedLines(t *testing.T) {
	const syslog = "Mar 31 15:47:45 dgx1 kubelet[3416]: "
	for _, f := range forms() {
		line := syslog + klogLine(f, testUID)
		for n := range line {
			for _, mark := range []string{"", ">", "…", "..."} {
				s, ok := parse(line[:n] + mark)
				if !ok {
					if mark == "" && !strings.Contains(line, "podUID") && f.reason != ReportTeardown && holdsQuoted(line[:n], testUID) {
						t.Errorf("%s cut at %d: no sighting\n%s", f.name, n, line[:n])
					}
					continue
				}
				if s.Report != f.reason && s.Report != ReportOther {
					t.Errorf("%s cut at %d: %s\n%s", f.name, n, s.Report, line[:n])
				}
				if s.UID != testUID || (s.Count != f.count && s.Count != NoCount) || !strings.Contains(line[:n], testUID) {
					t.Errorf("%s cut at %d: %+v\n%s", f.name, n, s, line[:n]+mark)
				}
			}
		}
	}
}

func holdsQuoted(s string, uid PodUID) bool {
	return strings.Contains(s, string(uid)+`"`) || strings.Contains(s, string(uid)+`\"`)
}
