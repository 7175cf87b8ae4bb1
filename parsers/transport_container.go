package parsers

import "strings"

// cri parses a CRI runtime's log of a kubelet that runs in a container:
//
//	2024-03-30T07:25:46.496936000+00:00 stderr F text
//	TIMESTAMP STREAM TAGS text
//
// Tags are separated by ":"; the first is F for a full line or the last piece of one,
// P for a piece that is not the last (kubelet's cri-client logs.go). klog writes to
// stderr; what is on stdout is somebody's text.
func cri(s string) (envelope, bool) {
	rest, at, ok := cutISO(s)
	if !ok {
		return envelope{}, false
	}
	text, ok := strings.CutPrefix(rest, "stderr ")
	if !ok {
		return envelope{}, false
	}
	tags, text, ok := strings.Cut(text, " ")
	tag, _, _ := strings.Cut(tags, ":")
	if !ok || (tag != "F" && tag != "P") {
		return envelope{}, false
	}
	return envelope{transport: transportCRI, time: at, text: text, whole: true}, true
}
