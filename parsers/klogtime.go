package parsers

import (
	"regexp"
	"time"
)

// klogHeader is klog's header anywhere in a line: klog doc of Lmmdd hh:mm:ss.uuuuuu threadid file:line].
var klogHeader = regexp.MustCompile(`[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) +\d+ [\w./-]+:\d+\]`)

// KlogTime returns the time of klog's header in a line, in the year 0 of UTC: klog writes neither the year nor the zone. It
// compares two lines of one log for people. It is no evidence.
func KlogTime(line []byte) (time.Time, bool) {
	m := klogHeader.FindSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse("0102 15:04:05", string(m[1])) // the fraction needs no layout
	return at, err == nil
}
