package parsers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// maxLine bounds what is looked at of one line. The kubelet's own lines are a few
// hundred bytes; paths are below 4,096 bytes each.
const maxLine = 64 << 10

// Options say what a Parser takes for a kubelet's and what the caller wants to see.
type Options struct {
	// Units are journal units that the operator named, beside KubeletUnits. Whatever
	// command of them writes is believed.
	Units []string
	// RunsKubelet says of other units whether a kubelet runs in them, nil where nobody knows.
	// What it holds for are units like KubeletUnits.
	RunsKubelet func(unit string) bool
	// Hints asks for ReportTeardown sightings too.
	Hints bool
}

// A Parser turns lines into sightings. It keeps what must be known of the lines
// before: a line can be the continuation of one that a container runtime or klog
// broke up, and a continuation's beginning is no beginning. Use one Parser for each
// file or journal, and give it the lines in order; those that are not Interesting, and
// do not follow one that OpensBlock, may be left out.
type Parser struct {
	units []string
	runs  func(unit string) bool
	hints bool
	prev  context
}

// NewParser returns a Parser.
func NewParser(o Options) *Parser {
	return &Parser{units: o.Units, runs: o.RunsKubelet, hints: o.Hints}
}

// ParseLine parses one line by itself, with hints and without further units.
func ParseLine(l Line) (Sighting, bool) { return NewParser(Options{Hints: true}).Parse(l) }

// Parse returns what the next line reports, and false where it reports nothing.
func (p *Parser) Parse(l Line) (Sighting, bool) {
	text := l.Text
	if len(text) > maxLine {
		text = text[:maxLine]
	}
	if !Interesting(text) {
		p.observe(text, l.Journal)
		return Sighting{}, false
	}
	line := string(text)
	var s Sighting
	var ok bool
	if l.Journal != nil {
		s, ok = p.journalEntry(l.Journal, line)
	} else {
		s, ok = p.fileLine(line)
	}
	p.observe(text, l.Journal)
	if !ok || !p.wants(text, s) {
		return Sighting{}, false
	}
	s.CatchUp, s.Whole = l.CatchUp, l.Whole
	if l.Journal != nil {
		s.Whole = l.Journal.Whole
	}
	return s, true
}

// wants is the last check of a sighting: hints only where they are asked for, and only
// a UID that the text holds.
func (p *Parser) wants(text []byte, s Sighting) bool {
	return (p.hints || s.Report != ReportTeardown) && literal(text, s.UID)
}

// literal reports whether the line holds uid as it is, with no hex digit before it. No
// program that passes a kubelet's line on has a reason to escape letters and digits;
// only an array of numbers hides them.
func literal(text []byte, uid PodUID) bool {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(uid))
		if i < 0 {
			return needleArray.find(text, arrayFollows) >= 0
		}
		if i += from; i == 0 || !isHexAnyCase(text[i-1]) {
			return true
		}
		from = i + 1
	}
}

// envelope is what a transport says around a message.
type envelope struct {
	transport string
	program   string
	named     bool // the transport names a program, which must be a kubelet's
	pid       int
	block     int // the process ID of the klog header that opened a block
	time      time.Time
	text      string // what is left: the program's own words
	bare      bool   // a line without any transport: there may be no header at all
	whole     bool   // journald delivers whole lines: a header that is cut is no header
}

// sighting parses the words inside an envelope.
func (e *envelope) sighting() (Sighting, bool) {
	byK0s := slices.Contains(k0sPrograms, e.program)
	if e.named && !byK0s && !kubeletProgram(e.program) {
		return Sighting{}, false
	}
	text := e.text
	if !e.whole {
		// rsyslog keeps the space after the tag's colon with the message.
		text = cutRepeated(strings.TrimPrefix(text, " "))
	}
	text = trimEnd(text)
	if inner, ok := cutK0s(text); ok && (byK0s || !e.named) {
		text, e.whole, e.bare = inner, true, false
		if e.transport == "" {
			e.transport = transportK0s
		}
	} else if e.named && byK0s {
		return Sighting{}, false
	}
	if strings.HasPrefix(text, "{") {
		return e.klogJSON(text)
	}
	h, msg, ok := cutHeader(text)
	if !ok && !e.whole {
		h, msg, ok = cutHeaderTail(text)
	}
	if !ok {
		if !e.bare || !bareStart(text) {
			return Sighting{}, false
		}
		msg = text
		if strings.HasPrefix(text, "err=") {
			msg = `"` + msgManyErrors + `" ` + text
		}
	}
	if e.transport == "" {
		e.transport = transportFragment
		if h.full {
			e.transport = transportKlog
		}
	}
	r, ok := textRecord(h.file, msg)
	if !ok {
		return Sighting{}, false
	}
	rep, ok := parseRecord(&r)
	if !ok {
		return Sighting{}, false
	}
	return e.make(rep, h.pid), true
}

// bareStart reports whether a line without any header starts as a report does. People
// cut lines so; it is a hint like the others, and never evidence.
func bareStart(s string) bool {
	for _, start := range [...]string{
		`Orphaned pod "`, `orphaned pod "`, "Orphan pod: ", "Failed to remove orphaned pod ",
		`"There were many similar errors. `, `"Orphan pod" err=`, `err="orphaned pod `,
	} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	return false
}

func (e *envelope) make(rep report, klogPID int) Sighting {
	s := Sighting{
		UID: PodUID(strings.Clone(string(rep.uid))), Report: rep.kind, Count: rep.count,
		Path: bounded(rep.path, maxPath), Volume: boundedName(rep.volume), Leaf: strings.Clone(rep.leaf),
		Transport: e.transport, Program: bounded(e.program, maxName), Time: e.time, PID: klogPID,
	}
	if len(s.Leaf) > maxPath {
		s.Leaf = "" // longer than any that is one: it may be cut nowhere
	}
	if s.PID == 0 {
		s.PID = e.pid
	}
	return s
}

// A sighting is kept, its line is not: what it holds of the line is copied, and bounded. A pod chooses
// what its volumes are called, and whoever forges a line chooses 64 KiB.
const (
	maxName = 256
	maxPath = 1024 // volumes/PLUGIN/VOLUME/mount, of 255 bytes each, below the kubelet's root directory
)

// bounded is for what people read: what is too long is cut.
func bounded(s string, most int) string {
	if len(s) > most {
		return s[:most-len("…")] + "…"
	}
	return strings.Clone(s)
}

// boundedName is for what tells one from another: two that are too long, and differ, still do.
func boundedName(s string) string {
	if len(s) <= maxName {
		return strings.Clone(s)
	}
	sum := sha256.Sum256([]byte(s))
	return s[:maxName-len("…")-32] + "…" + hex.EncodeToString(sum[:16])
}

// The transports, as Sighting.Transport has them.
const (
	transportKlog     = "klog"
	transportKlogJSON = "klog-json"
	transportFragment = "fragment"
	transportSyslog   = "syslog"
	transport5424     = "syslog-5424"
	transportShort    = "journal-short" // the forms of journalctl that syslog does not have
	transportJournal  = "journal"       // an entry with its trusted fields
	transportJSON     = "journal-json"
	transportVerbose  = "journal-verbose"
	transportExport   = "journal-export"
	transportCRI      = "cri"
	transportDocker   = "docker-json"
	transportStamped  = "container-timestamps"
	transportGCP      = "gcp-json"
	transportShipped  = "shipped-json"
	transportK0s      = "k0s" // a line of k0s's own log, around the kubelet's
)

// journalEntry parses an entry that a journal source delivers.
func (p *Parser) journalEntry(j *JournalFields, msg string) (Sighting, bool) {
	if !p.trusted(j.Unit, j.Comm, j.UID) {
		return Sighting{}, false
	}
	e := journalEnvelope(j, msg)
	s, ok := e.sighting()
	if !ok {
		if s, ok = p.continued(e); !ok {
			return Sighting{}, false
		}
	}
	s.Trusted, s.BootID = true, j.BootID
	return s, true
}

func journalEnvelope(j *JournalFields, msg string) envelope {
	return envelope{transport: transportJournal, program: j.Identifier, pid: j.PID, time: j.Time, text: msg, whole: true}
}

// fileLine parses a line of a file.
func (p *Parser) fileLine(line string) (Sighting, bool) {
	// A crash, and a writer whose file copytruncate emptied, leave NULs before a line.
	line = strings.TrimLeft(line, "\x00")
	line = strings.TrimPrefix(line, "\ufeff") // A byte order mark, at a file's beginning.
	line = stripColour(strings.TrimRight(line, "\r\n"))
	e, ok := p.unwrap(line)
	if !ok {
		if strings.HasPrefix(line, "\t") {
			return p.continued(envelope{text: line})
		}
		return Sighting{}, false
	}
	if e.transport == transportCRI && p.prev.partial[criStderr] {
		return Sighting{}, false
	}
	if s, ok := e.sighting(); ok {
		return s, true
	}
	return p.continued(e)
}
