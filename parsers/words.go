package parsers

import (
	"bytes"
	"strings"
)

// mostWords bounds what Words returns.
const mostWords = 400

// Words returns what a line complains of, without what stands around it, for people to read: no
// header, no escapes of a transport, no counter behind it. It looks for the words of the reports
// and reads nothing else; what a line is evidence of only a Sighting says.
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
