package parsers

import (
	"bytes"
	"strings"
	"time"
)

// MaxLine is the longest line that can be a report. The kubelet's own have a few hundred bytes; a path has less than 4,096.
const MaxLine = 64 << 10

// Parse returns the report in a line, which it parses from the first byte to the last: transport, klog's header or JSON, and
// the format strings of the kubelet's source file. It does not search, so it finds no report in a probe's output, in a
// volume's name, or in another program's log.
func Parse(l Line) (Report, bool) {
	if len(l.Text) > MaxLine || !Interesting(l.Text) {
		return Report{}, false
	}
	e := envelope{text: stripColour(string(l.Text))}
	if l.Journal == nil {
		var ok bool
		if e, ok = unwrap(string(l.Text)); !ok {
			return Report{}, false
		}
	} else if m, rest := cutHead(k0sForm, e.text); m != nil {
		var ok bool
		if e, ok = k0s(m[1], rest); !ok {
			return Report{}, false
		}
	}
	return e.report(l)
}

// report parses the text inside the envelope.
func (e *envelope) report(l Line) (Report, bool) {
	if e.named && !kubeletProgram(e.program) || e.journal != nil && e.journal.UID != "" && e.journal.UID != "0" {
		return Report{}, false
	}
	text := trimEnd(strings.TrimPrefix(e.text, " ")) // rsyslog keeps the space after the tag's colon with the message
	var c call
	var ok bool
	if strings.HasPrefix(text, "{") {
		c, ok = klogJSON(text)
	} else if h, msg, found := cutHeader(text); found && h.full {
		c, ok = textCall(h.file, msg)
		c.PID, c.Time = h.pid, h.time
	}
	if !ok {
		return Report{}, false
	}
	r, ok := parseOrphan(&c)
	if !ok || !literal(l.Text, r.UID) {
		return Report{}, false
	}
	r.Line, r.PID, r.JSON = l, c.PID, c.JSON
	r.UID = PodUID(strings.Clone(string(r.UID)))
	r.Words = words(text)
	r.Header, r.HeaderZone = c.Time, c.JSON && !c.Time.IsZero()
	r.Whole = l.Whole && !e.pieces
	if l.Journal == nil {
		r.Journal = e.journal
	}
	return r, true
}

// literal reports whether the line contains uid unescaped. A program that forwards a kubelet's line has no reason to escape
// letters and digits.
func literal(text []byte, uid PodUID) bool { return bytes.Contains(text, []byte(uid)) }

// mostWords limits the length of Report.Words, since a pod chooses the names in it.
const mostWords = 400

// words returns the kubelet's own words in a text: without header, escapes and counter.
func words(text string) string {
	i := strings.Index(text, "rphaned pod")
	if i < 0 {
		i = max(0, strings.Index(text, "] ")+1)
	}
	s := strings.ReplaceAll(text[max(0, i-1):min(len(text), i+2*mostWords)], `\`, "")
	for _, end := range [...]string{`" numErrs=`, `","`, `"}`, `" v=`, " : There were a total of", ". : There were a total of"} {
		s, _, _ = strings.Cut(s, end)
	}
	if msg, fields, ok := strings.Cut(s, `" podUID="`); ok && !strings.Contains(msg, `"`) { // the end of klog's quoted message
		s = msg + `: podUID="` + fields
	}
	if s = strings.TrimSpace(s); strings.Count(s, `"`)%2 == 1 {
		s = strings.TrimSuffix(s, `"`)
	}
	if len(s) > mostWords {
		s = s[:mostWords] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// klogTime parses the time of klog's header: 0331 15:47:45.892216, without year and zone.
func klogTime(s string) time.Time {
	at, err := time.Parse("0102 15:04:05", s) // the fraction needs no layout
	if err != nil {
		return time.Time{}
	}
	return at
}
