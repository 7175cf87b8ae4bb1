package parsers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxLine limits the parsed part of a line. The kubelet's own lines have a few hundred bytes; a path has less than 4,096.
const maxLine = 64 << 10

// The values of Sighting.Transport.
const (
	transportKlog     = "klog"
	transportKlogJSON = "klog-json"
	transportFragment = "fragment"
	transportSyslog   = "syslog"
	transport5424     = "syslog-5424"
	transportShort    = "journal-short" // formats of journalctl that syslog does not have
	transportJournal  = "journal"       // an entry with its trusted fields
	transportJSON     = "journal-json"
	transportMessage  = "journal-verbose" // "MESSAGE=text"
	transportCRI      = "cri"
	transportDocker   = "docker-json"
	transportStamped  = "container-timestamps"
	transportGCP      = "gcp-json"
	transportK0s      = "k0s" // a line of k0s's own log, around the kubelet's
)

// envelope holds the fields that a transport adds around a program's text.
type envelope struct {
	Transport string // "" for a line without one, until call sets it
	Program   string // the program that the transport names, or ""
	PID       int    // the PID in the transport, or 0
	Time      time.Time
	Text      string // the program's own text
	host      string // the host that the transport names, or ""

	named bool // the transport names a program, which must be a kubelet
	bare  bool // there is no transport, and there may be no klog header
	whole bool // the transport delivers complete lines, so a truncated klog header is not accepted
}

// call parses the text inside the envelope.
func (e *envelope) call() (call, bool) {
	byK0s := slices.Contains(k0sPrograms, e.Program)
	if e.named && !byK0s && !kubeletProgram(e.Program) {
		return call{}, false
	}
	text := e.Text
	if !e.whole {
		// rsyslog keeps the space after the tag's colon with the message.
		text = cutRepeated(strings.TrimPrefix(text, " "))
	}
	text = trimEnd(text)
	if m := k0sForm.FindStringSubmatch(text); m != nil && (byK0s || !e.named) {
		inner, err := strconv.Unquote(m[1])
		if err != nil {
			return call{}, false
		}
		text, e.whole, e.bare = inner, true, false
		e.Transport = cmp.Or(e.Transport, transportK0s)
	} else if e.named && byK0s {
		return call{}, false
	}
	if strings.HasPrefix(text, "{") {
		return e.klogJSON(text)
	}
	h, msg, ok := cutHeader(text)
	ok = ok && (h.full || !e.whole)
	if !ok && e.bare {
		msg, ok = bareMessage(text)
	}
	if !ok {
		return call{}, false
	}
	if e.Transport == "" {
		e.Transport = transportFragment
		if h.full {
			e.Transport = transportKlog
		}
	}
	c, ok := textCall(h.file, msg)
	c.PID = h.pid
	return c, ok
}

// bareMessage returns the message of a line without a header that starts like a report. Users cut lines so; such a line
// is never evidence.
func bareMessage(text string) (msg string, ok bool) {
	if strings.HasPrefix(text, `err="orphaned pod `) {
		return `"` + msgManyErrors + `" ` + text, true
	}
	for _, start := range [...]string{
		`Orphaned pod "`, `orphaned pod "`, "Orphan pod: ", "Failed to remove orphaned pod ",
		`"There were many similar errors. `, `"Orphan pod" err=`, `"Orphaned pod found, but `, `"Failed to remove orphaned pod `,
	} {
		if strings.HasPrefix(text, start) {
			return text, true
		}
	}
	return "", false
}
