package parsers

import (
	"bytes"
	"cmp"
	"strings"
)

// The meaning of a line can depend on the line before it, in two cases.
//
// A CRI runtime cuts lines at 16 KiB: the record after a partial one (tag P) starts in the middle of a line,
// where the text may be a container's output.
//
// klog prints an error that holds a newline as a block. Its first line is the
// kubelet's, the others are the error's:
//
//	E0117 09:15:33.123456    2154 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=<
//		orphaned pod "UID" found, but …
//		the rest of a name
//	 > numErrs=1

// context is the state that earlier lines leave for the next one.
type context struct {
	partial bool   // the last CRI record of stderr was partial
	block   *block // the line before opened a block
}

// block is the line that opened a block.
type block struct {
	envelope
	klogPID int
}

// OpensBlock reports whether the line after text must be given to the Parser whatever it
// holds: text may open a block, and only the very next line is the kubelet's own. It is
// a cheap test of the line's end.
func OpensBlock(text []byte) bool {
	return bytes.Contains(text[max(0, len(text)-24):], []byte(" err=<"))
}

// opens returns the block that the line opens, nil where it opens none with a report.
func (e *envelope) opens() *block {
	h, msg, ok := cutHeader(trimEnd(strings.TrimPrefix(e.Text, " ")))
	if ok && h.full && h.file == "kubelet_volumes.go" && (msg == `"`+msgManyErrors+`" err=<` || msg == `"`+msgOrphanPod+`" err=<`) {
		return &block{*e, h.pid}
	}
	return nil
}

// continued parses the first line of a block, which klog begins with a tab, when the line before opened
// one in the same transport, for the same program and process.
func (e *envelope) continued(head *block) (Sighting, bool) {
	if head == nil || e.Transport != head.Transport || e.Program != head.Program || e.PID != head.PID ||
		e.named && !kubeletProgram(e.Program) {
		return Sighting{}, false
	}
	text := strings.TrimPrefix(e.Text, " ")
	first, ok := strings.CutPrefix(text, "\t")
	if !ok {
		first, ok = strings.CutPrefix(text, "#011")
	}
	if !ok {
		return Sighting{}, false
	}
	c := call{File: "kubelet_volumes.go", Structured: true, Msg: msgOrphanPod}
	c.Fields = []field{{Key: "err", Value: trimEnd(first), Cut: true}}
	s, ok := parseRecord(&c)
	if !ok {
		return Sighting{}, false
	}
	e.Transport = cmp.Or(e.Transport, transportKlog)
	return placed(s, e, head.klogPID), true
}
