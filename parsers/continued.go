package parsers

import (
	"bytes"
	"strings"
)

// What a line means can depend on the line before it, in two cases.
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

// context is what earlier lines show about the next one.
type context struct {
	partial bool   // the last CRI record of stderr was partial
	block   *block // the line before opened a block
}

// block is the line that opened a block.
type block struct {
	envelope
	klogPID int
}

// observe notes what a line shows about the lines after it.
func (p *Parser) observe(text []byte, j *JournalFields) {
	p.prev.block = nil
	if partial, ok := piece(text); ok {
		p.prev.partial = partial
	}
	if !OpensBlock(text) {
		return
	}
	var e envelope
	var ok bool
	if j != nil {
		e, ok = p.entry(j, string(text))
	} else {
		e, ok = p.units.unwrap(stripColour(strings.TrimRight(string(text), "\r\n")))
	}
	if !ok {
		return
	}
	c, ok := e.opens()
	if ok && c.File == "kubelet_volumes.go" && (c.Msg == `"`+msgManyErrors+`"` || c.Msg == `"`+msgOrphanPod+`"`) {
		p.prev.block = &block{e, c.PID}
	}
}

// OpensBlock reports whether the line after text must be given to the Parser whatever it
// holds: text may open a block, and only the very next line is the kubelet's own. It is
// a cheap test of the line's end.
func OpensBlock(text []byte) bool {
	return bytes.Contains(text[max(0, len(text)-24):], []byte(" err=<"))
}

// continued parses the first line of a block, when the line before opened one in the
// same transport, for the same program and process.
func (p *Parser) continued(e *envelope) (Sighting, bool) {
	head := p.prev.block
	if head == nil || e.Transport != head.Transport || e.Program != head.Program || e.PID != head.PID {
		return Sighting{}, false
	}
	first, ok := e.goesOn()
	if !ok {
		return Sighting{}, false
	}
	c := call{File: "kubelet_volumes.go", Structured: true, Msg: msgOrphanPod}
	c.Fields = []field{{Key: "err", Value: first, Cut: true}}
	s, ok := parseRecord(&c)
	if !ok {
		return Sighting{}, false
	}
	if e.Transport == "" {
		e.Transport = transportKlog
	}
	return placed(s, e, head.klogPID), true
}
