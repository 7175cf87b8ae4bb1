package parsers

import (
	"strings"
	"time"
)

// criRecord is one record of a transportCRI runtime's log:
//
//	2024-03-30T07:25:46.496936000+00:00 stderr F text
//	TIMESTAMP STREAM TAGS text
//
// Tags are separated by ":"; the first is F for a full line or the last piece of one,
// P for a piece that is not the last (kubelet's cri-client logs.go).
type criRecord struct {
	at      time.Time
	stream  string // stderr or stdout
	partial bool
	text    string
}

func cutCRI(s string) (criRecord, bool) {
	var r criRecord
	rest, at, ok := cutISO(s)
	if !ok {
		return r, false
	}
	stream, rest, _ := strings.Cut(rest, " ")
	tags, text, _ := strings.Cut(rest, " ")
	tag, _, _ := strings.Cut(tags, ":")
	r = criRecord{at: at, stream: stream, partial: tag == "P", text: text}
	return r, (stream == "stderr" || stream == "stdout") && (tag == "F" || tag == "P")
}

// isCRI reports whether a line begins as a record of a CRI runtime's log.
func isCRI(line []byte) bool {
	_, ok := cutCRI(string(line[:min(len(line), 128)]))
	return ok
}

// piece reports whether the line is a record of stderr in a transportCRI runtime's log, and whether the next
// such record goes on with it.
func piece(line []byte) (partial, ok bool) {
	r, ok := cutCRI(string(line[:min(len(line), 128)])) // no more than a record's head
	return r.partial, ok && r.stream == "stderr"
}

// cri parses a transportCRI runtime's log of a kubelet that runs in a container. klog writes to
// stderr; stdout has the text of others.
func cri(s string) (envelope, bool) {
	r, ok := cutCRI(s)
	return envelope{Transport: transportCRI, Time: r.at, Text: r.text, whole: true}, ok && r.stream == "stderr"
}
