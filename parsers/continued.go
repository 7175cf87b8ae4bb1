package parsers

import (
	"bytes"
	"strings"
)

// What a line says can depend on the line before it, in two cases.
//
// A CRI runtime cuts lines at 16 KiB: the record after a partial one (tag P) starts
// somewhere within a line, where a container's output may stand.
//
// klog prints an error that holds a newline as a block. Its first line is the
// kubelet's, the others are the error's:
//
//	E0117 09:15:33.123456    2154 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=<
//		orphaned pod "UID" found, but …
//		the rest of a name
//	 > numErrs=1

// context is what earlier lines say of the next one.
type context struct {
	partial [2]bool   // CRI streams whose last record was partial
	block   *envelope // the line before opened a block
}

// observe notes what a line says of the lines after it.
func (p *Parser) observe(text []byte, j *JournalFields) {
	p.prev.block = nil
	if r, ok := cutCRI(criHead(text)); ok {
		p.prev.partial[r.stream] = r.partial
	}
	if !OpensBlock(text) {
		return
	}
	var e envelope
	if j != nil {
		if !p.trusted(j.Unit, j.Comm, j.UID) {
			return
		}
		e = journalEnvelope(j, string(text))
	} else {
		var ok bool
		if e, ok = p.unwrap(stripColour(strings.TrimRight(string(text), "\r\n"))); !ok {
			return
		}
	}
	head := trimEnd(strings.TrimPrefix(e.text, " "))
	h, msg, ok := cutHeader(head)
	quoted, isHead := strings.CutSuffix(msg, " err=<")
	if ok && isHead && h.file == "kubelet_volumes.go" && (quoted == `"`+msgManyErrors+`"` || quoted == `"`+msgOrphanPod+`"`) {
		e.block = h.pid
		p.prev.block = &e
	}
}

// OpensBlock reports whether the line after text must be given to the Parser whatever it
// holds: text may open a block, and only the very next line is the kubelet's own. It is
// a cheap look at the line's end.
func OpensBlock(text []byte) bool {
	return bytes.Contains(text[max(0, len(text)-24):], []byte(" err=<"))
}

// continued parses the first line of a block, when the line before opened one in the
// same transport, for the same program and process.
func (p *Parser) continued(e envelope) (Sighting, bool) {
	head := p.prev.block
	if head == nil || e.transport != head.transport || e.program != head.program || e.pid != head.pid || (e.named && !kubeletProgram(e.program)) {
		return Sighting{}, false
	}
	text := strings.TrimPrefix(e.text, " ")
	first, ok := strings.CutPrefix(text, "\t")
	if !ok {
		if first, ok = strings.CutPrefix(text, "#011"); !ok {
			return Sighting{}, false
		}
	}
	r := record{file: "kubelet_volumes.go", structured: true, msg: msgOrphanPod}
	r.fields = []field{{key: "err", value: trimEnd(first), cut: true}}
	rep, ok := parseRecord(&r)
	if !ok {
		return Sighting{}, false
	}
	if e.transport == "" {
		e.transport = transportKlog
	}
	return e.make(rep, head.block), true
}
