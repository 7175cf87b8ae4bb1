package parsers

import (
	"strings"
	"time"
)

// A container's streams.
const (
	criStderr = iota
	criStdout
)

// criRecord is one record of a CRI runtime's log:
//
//	2024-03-30T07:25:46.496936000+00:00 stderr F text
//	TIMESTAMP STREAM TAGS text
//
// Tags are separated by ":"; the first is F for a full line or the last piece of one,
// P for a piece that is not the last (kubelet's cri-client logs.go).
type criRecord struct {
	at      time.Time
	stream  int // criStderr or criStdout
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
	r.at, r.text, r.partial = at, text, tag == "P"
	if stream == "stdout" {
		r.stream = criStdout
	}
	return r, (stream == "stderr" || stream == "stdout") && (tag == "F" || tag == "P")
}

// criHead returns as much of a line as a record's head takes.
func criHead(line []byte) string { return string(line[:min(len(line), 128)]) }

// cri parses a CRI runtime's log of a kubelet that runs in a container. klog writes to
// stderr; what is on stdout is somebody's text.
func cri(s string) (envelope, bool) {
	r, ok := cutCRI(s)
	return envelope{transport: transportCRI, time: r.at, text: r.text, whole: true}, ok && r.stream == criStderr
}
