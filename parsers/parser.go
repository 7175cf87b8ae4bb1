package parsers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Parser parses single lines into sightings. Lines that are not Interesting need not be passed to it. The zero value
// is ready to use.
type Parser struct {
	// Units are journal units that the operator named, besides KubeletUnits. All their commands are trusted.
	Units []string
	// RunsKubelet reports whether a kubelet runs in another unit, which is then like one of KubeletUnits. It may be nil.
	RunsKubelet func(unit string) bool
	// Hints enables ReportTeardown sightings.
	Hints bool
}

// ParseLine parses one line, with hints and without additional units.
func ParseLine(l Line) (Sighting, bool) { return (&Parser{Hints: true}).Parse(l) }

// Parse returns a line's sighting, and false if the line reports nothing.
func (p *Parser) Parse(l Line) (Sighting, bool) {
	text := l.Text[:min(len(l.Text), maxLine)]
	if !Interesting(text) {
		return Sighting{}, false
	}
	e, ok := p.envelope(string(text), l.Journal)
	if !ok {
		return Sighting{}, false
	}
	s, ok := sighting(&e)
	if !ok || (s.Report == ReportTeardown && !p.Hints) || !literal(text, s.UID) {
		return Sighting{}, false
	}
	// Container runtimes split lines at 16 KiB, so a record may begin with text that the kubelet quotes.
	s.CatchUp, s.Whole = l.CatchUp, l.Whole && e.Transport != transportCRI && e.Transport != transportDocker
	if l.Journal != nil {
		s.Trusted, s.BootID = true, l.Journal.BootID
	}
	return s, true
}

// envelope parses the transport of a line. For a journal entry it uses the fields, and returns false if they
// are not trusted.
func (p *Parser) envelope(line string, j *JournalFields) (envelope, bool) {
	if j != nil {
		e := envelope{Transport: transportJournal, Program: j.Identifier, PID: j.PID, Time: j.Time, Text: line, whole: true}
		return e, p.trusts(j.Unit, j.Comm, j.UID)
	}
	// After a crash, or after copytruncate has emptied a writer's file, there are NULs before a line.
	line = strings.TrimLeft(line, "\x00")
	line = strings.TrimPrefix(line, "\ufeff") // the byte order mark of a file
	return p.unwrap(stripColour(strings.TrimRight(line, "\r\n")))
}

// literal reports whether the line contains uid unescaped, without a hex digit before it. A program that forwards a
// kubelet's line has no reason to escape letters and digits. An array of numbers is the only exception.
func literal(text []byte, uid PodUID) bool {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(uid))
		if i < 0 {
			return needleArray.find(text) >= 0
		}
		if i += from; i == 0 || !isHexAnyCase(text[i-1]) {
			return true
		}
		from = i + 1
	}
}

// sighting parses the text inside an envelope.
func sighting(e *envelope) (Sighting, bool) {
	c, ok := e.call()
	if !ok {
		return Sighting{}, false
	}
	s, ok := parseRecord(&c)
	if !ok {
		return Sighting{}, false
	}
	s.JSON = c.JSON
	return complete(s, e, c.PID), true
}

// complete adds the envelope's fields to s and copies the strings that s shares with the line.
func complete(s Sighting, e *envelope, klogPID int) Sighting {
	s.UID, s.Leaf = PodUID(strings.Clone(string(s.UID))), strings.Clone(s.Leaf)
	if len(s.Leaf) > maxPath {
		s.Leaf = "" // not a leaf; a truncated one would be another directory
	}
	s.Path, s.Volume = bounded(s.Path, maxPath), boundedName(s.Volume)
	s.Transport, s.Program = e.Transport, bounded(e.Program, maxName)
	if year := e.Time.Year(); year >= 1 && year <= 9999 { // RFC 3339 has no other, and no clock shows one
		s.Time = e.Time
	}
	if s.PID = klogPID; s.PID == 0 {
		s.PID = e.PID
	}
	return s
}

// A sighting outlives its line, so its strings are copied and limited: a pod chooses the names of its volumes, and a
// forged line can have 64 KiB.
const (
	maxName = 256
	maxPath = 1024 // volumes/PLUGIN/VOLUME/mount, of 255 bytes each, below the kubelet's root directory
)

// bounded truncates a text for display.
func bounded(s string, most int) string {
	if len(s) > most {
		return s[:most-len("…")] + "…"
	}
	return strings.Clone(s)
}

// boundedName shortens a name such that different names remain different.
func boundedName(s string) string {
	if len(s) <= maxName {
		return strings.Clone(s)
	}
	sum := sha256.Sum256([]byte(s))
	return s[:maxName-len("…")-32] + "…" + hex.EncodeToString(sum[:16])
}
