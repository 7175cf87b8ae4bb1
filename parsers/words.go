package parsers

import (
	"bytes"
	"regexp"
	"strings"
	"time"
)

// mostWords limits the length of Words' result.
const mostWords = 400

// Words returns the report in a line for display: without header, escapes and the counter at the end. It only searches
// for the texts of the reports; only a Sighting is evidence.
func Words(text []byte) string {
	text = text[:min(len(text), 64<<10)]
	from := 0
	for _, start := range [...]string{"UnmountVolume", "UnmapVolume", "cleaning subPath mounts", "rphaned pod"} {
		if i := bytes.Index(text, []byte(start)); i >= 0 {
			from = i
		}
	}
	if bytes.HasPrefix(text[from:], []byte("rphaned")) {
		from = max(0, from-1) // "orphaned" or "Orphaned"
	}
	s := strings.ReplaceAll(string(text[from:min(len(text), from+2*mostWords)]), `\`, "")
	for _, end := range [...]string{`" numErrs=`, `","`, `"}`, `" v=`, " : There were a total of", ". : There were a total of"} {
		s, _, _ = strings.Cut(s, end)
	}
	if s = strings.TrimSpace(s); strings.Count(s, `"`)%2 == 1 {
		s = strings.TrimSuffix(s, `"`)
	}
	if len(s) > mostWords {
		s = strings.ToValidUTF8(s[:mostWords], "") + "…"
	}
	return s
}

// klogHeader matches klog's header anywhere in a line: Lmmdd hh:mm:ss.uuuuuu threadid file:line].
var klogHeader = regexp.MustCompile(`[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) +\d+ [\w./-]+:\d+\]`)

// KlogTime returns the time of klog's header in a line, in UTC and the year 0, since klog writes neither year nor zone.
// It is for comparing two lines of one log for display, and not evidence.
func KlogTime(line []byte) (time.Time, bool) {
	m := klogHeader.FindSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse("0102 15:04:05", string(m[1])) // the fraction needs no layout
	return at, err == nil
}
