package parsers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"strings"
)

// entryKind says which of journalctl's formats with an entry on many lines a log has.
type entryKind int

const (
	entryNone entryKind = iota
	entryExport
	entryVerbose
	entryPretty
)

// verboseHead starts an entry of journalctl -o verbose: a time and the cursor.
var verboseHead = regexp.MustCompile(`^[^=\[]{1,64} \[s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};`)

// entryKindOf tells the format from a log's beginning, and false where that is too
// short to tell. In the middle of other text nothing switches to a format of entries:
// what can be written there is not known.
func entryKindOf(head []byte) (entryKind, bool) {
	for line := range strings.Lines(string(head[:min(len(head), 4096)])) {
		switch {
		case !strings.HasSuffix(line, "\n"):
			return entryNone, len(line) >= 512
		case strings.HasPrefix(line, "-- "): // "-- Journal begins at …"
			continue
		case strings.HasPrefix(line, "__CURSOR="), strings.HasPrefix(line, "__REALTIME_TIMESTAMP="):
			return entryExport, true
		case line == "{\n":
			return entryPretty, true
		case verboseHead.MatchString(line):
			return entryVerbose, true
		}
		return entryNone, true
	}
	return entryNone, false
}

// entry is one journal entry's fields that matter here.
type entry struct {
	fields map[string]string
	twice  bool  // a field that matters came twice
	more   bool  // there are fields that journalctl does not print unless they were chosen, beside MESSAGE
	line   int   // the line of MESSAGE
	offset int64 // where that line starts
	time   string
}

// wanted are the fields that are kept of an entry; any field's name that starts with
// an underscore makes it an entry that must prove its unit.
var wanted = map[string]bool{
	"MESSAGE": true, "SYSLOG_IDENTIFIER": true, "_SYSTEMD_UNIT": true, "_COMM": true,
	"_UID": true, "_PID": true, "__REALTIME_TIMESTAMP": true,
}

func (e *entry) set(key, value string) {
	if e.fields == nil {
		e.fields = map[string]string{}
	}
	e.more = e.more || (key != "MESSAGE" && !alwaysPrinted(key))
	if !wanted[key] {
		return
	}
	if _, ok := e.fields[key]; ok {
		e.twice = true
	}
	e.fields[key] = value
}

// entryReader reads a log of entries from its beginning, in order: where a field ends
// is known only so, and a value may hold what looks like a field.
type entryReader struct {
	kind     entryKind
	r        *bufio.Reader
	parser   *Parser
	line     int   // lines read
	consumed int64 // bytes read
	done     bool
	err      error
}

func newEntryReader(kind entryKind, r io.Reader, p *Parser) *entryReader {
	return &entryReader{kind: kind, r: bufio.NewReaderSize(r, maxLine), parser: p}
}

// scanEntries is Scan for a log of entries.
func (s *Scanner) scanEntries() bool {
	for !s.entries.done {
		e, text := s.entries.next()
		found, ok := s.entries.judge(&e, text)
		if ok {
			s.sighting, s.sightingLine, s.sightingOffset = found, e.line, e.offset
			return true
		}
	}
	s.err = s.entries.err
	return false
}

// judge parses an entry by its trusted fields; text is the whole object of json-pretty.
func (er *entryReader) judge(e *entry, text string) (Sighting, bool) {
	env, ok := envelope{}, false
	if er.kind == entryPretty {
		if Interesting([]byte(text)) {
			env, ok = er.parser.unwrapJSON(text)
		}
	} else {
		text = e.fields["MESSAGE"]
		env, ok = er.envelope(e)
		ok = ok && Interesting([]byte(text))
	}
	if !ok {
		return Sighting{}, false
	}
	s, ok := env.sighting()
	return s, ok && er.parser.wants([]byte(text), s)
}

// envelope returns an entry's message, when its trusted fields are a kubelet's.
func (er *entryReader) envelope(e *entry) (envelope, bool) {
	if e.twice || (e.more && !er.parser.trusted(e.fields["_SYSTEMD_UNIT"], e.fields["_COMM"], e.fields["_UID"])) {
		return envelope{}, false
	}
	env := envelope{transport: transportExport, program: e.fields["SYSLOG_IDENTIFIER"], text: e.fields["MESSAGE"], whole: true}
	if er.kind == entryVerbose {
		env.transport = transportVerbose
		_, env.time, _ = cutFull(e.time)
	}
	env.pid, _ = number(e.fields["_PID"])
	if at, ok := micros(e.fields["__REALTIME_TIMESTAMP"]); ok {
		env.time = at
	}
	return env, true
}

// next reads one entry, or for json-pretty one object's text.
func (er *entryReader) next() (entry, string) {
	switch er.kind {
	case entryExport:
		return er.export(), ""
	case entryVerbose:
		return er.verbose(), ""
	case entryPretty, entryNone:
	}
	return er.pretty()
}

// readLine reads a line without its newline, of at most maxLine bytes; the rest of a
// longer one is skipped.
func (er *entryReader) readLine() (string, bool) {
	slice, err := er.r.ReadSlice('\n')
	er.consumed += int64(len(slice))
	line := string(slice)
	for errors.Is(err, bufio.ErrBufferFull) {
		slice, err = er.r.ReadSlice('\n')
		er.consumed += int64(len(slice))
	}
	if err != nil {
		er.done, er.err = true, err
		if line == "" {
			return "", false
		}
	}
	er.line++
	return strings.TrimSuffix(line, "\n"), true
}

// export reads the Journal Export Format: "KEY=value" lines, or a line "KEY", eight
// bytes of length (little endian), that many bytes and a newline; an empty line ends
// the entry.
func (er *entryReader) export() entry {
	var e entry
	for {
		offset := er.consumed
		line, ok := er.readLine()
		if !ok || line == "" {
			return e
		}
		key, value, text := strings.Cut(line, "=")
		if key == "MESSAGE" {
			e.line, e.offset = er.line, offset
		}
		if !text {
			if value, ok = er.binary(); !ok {
				return entry{}
			}
		}
		e.set(key, value)
	}
}

// binary reads the rest of a binary field.
func (er *entryReader) binary() (string, bool) {
	var length [8]byte
	n, err := io.ReadFull(er.r, length[:])
	er.consumed += int64(n)
	if err != nil {
		er.cut(err)
		return "", false
	}
	er.line += strings.Count(string(length[:]), "\n")
	size := binary.LittleEndian.Uint64(length[:])
	kept := make([]byte, min(size, maxLine))
	n, err = io.ReadFull(er.r, kept)
	er.consumed += int64(n)
	er.line += strings.Count(string(kept[:n]), "\n")
	for left := size - uint64(len(kept)) + 1; err == nil && left > 0; {
		var chunk [4096]byte
		n, err = io.ReadFull(er.r, chunk[:min(left, uint64(len(chunk)))])
		er.consumed += int64(n)
		er.line += strings.Count(string(chunk[:n]), "\n")
		left -= uint64(n)
	}
	if err != nil {
		er.cut(err)
		return "", false
	}
	return string(kept), true
}

// cut ends the log inside a field. A log that is still being written ends so: no error.
func (er *entryReader) cut(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	er.done, er.err = true, err
}

// verbose reads journalctl -o verbose: a head with time and cursor, then
// "    KEY=value" lines; further lines of a value stand further to the right.
//
//	Tue 2024-08-23 10:31:01.847946 UTC [s=…;i=…;b=…;m=…;t=…;x=…]
//	    _SYSTEMD_UNIT=kubelet.service
//	    MESSAGE=E0823 10:31:01.847946    1303 kubelet_volumes.go:140] …
func (er *entryReader) verbose() entry {
	e := entry{}
	for {
		if e.fields != nil && er.headNext() {
			return e
		}
		offset := er.consumed
		line, ok := er.readLine()
		if !ok {
			return e
		}
		field, ok := strings.CutPrefix(line, "    ")
		if !ok {
			if e.fields != nil {
				return e
			}
			e.time = line
			continue
		}
		key, value, ok := strings.Cut(field, "=")
		if !ok || !isFieldName(key) {
			continue
		}
		if key == "MESSAGE" {
			e.line, e.offset = er.line, offset
		}
		e.set(key, value)
	}
}

// headNext reports whether the next line starts another entry.
func (er *entryReader) headNext() bool {
	next, err := er.r.Peek(1)
	return err == nil && next[0] != ' '
}

func isFieldName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// pretty reads one object of journalctl -o json-pretty, or of jq, which starts and ends with
// a brace in the first column. One larger than maxLine is skipped.
func (er *entryReader) pretty() (entry, string) {
	var e entry
	var b strings.Builder
	for {
		offset := er.consumed
		line, ok := er.readLine()
		if !ok {
			return e, ""
		}
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), `"MESSAGE"`) {
			e.line, e.offset = er.line, offset
		}
		if line == "{" {
			b.Reset()
		}
		if b.Len() <= 4*maxLine {
			b.WriteString(line)
		}
		if line == "}" {
			return e, b.String()
		}
	}
}
