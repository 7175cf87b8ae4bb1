package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"strings"
)

// Kind says which of journalctl's formats with an entry on many lines a log has.
type Kind int

// The formats. NoEntries is any other log.
const (
	NoEntries Kind = iota
	entryExport
	entryVerbose
	entryPretty
)

// verboseHead starts an entry of journalctl -o verbose: a time and the cursor.
var verboseHead = regexp.MustCompile(`^[^=\[]{1,64} \[s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};`)

// KindOf tells the format from a log's beginning, and false where that is too
// short to tell. In the middle of other text nothing switches to a format of entries:
// what can be written there is not known.
func KindOf(head []byte) (Kind, bool) {
	for line := range strings.Lines(string(head[:min(len(head), 4096)])) {
		switch {
		case !strings.HasSuffix(line, "\n"):
			return NoEntries, len(line) >= 512
		case strings.HasPrefix(line, "-- "): // "-- Journal begins at …"
			continue
		case strings.HasPrefix(line, "__CURSOR="), strings.HasPrefix(line, "__REALTIME_TIMESTAMP="):
			return entryExport, true
		case line == "{\n":
			return entryPretty, true
		case verboseHead.MatchString(line):
			return entryVerbose, true
		}
		return NoEntries, true
	}
	return NoEntries, false
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

// Entries reads a log of entries from its beginning, in order: where a field ends
// is known only so, and a value may hold what looks like a field.
type Entries struct {
	kind     Kind
	r        *bufio.Reader
	units    *Units
	worth    func(text []byte) bool
	at       entry
	line     int   // lines read
	consumed int64 // bytes read
	done     bool
	err      error
}

// NewEntries returns one for a log of this kind. worth says of a text whether it is worth looking
// at; units say whose entries count.
func NewEntries(kind Kind, r io.Reader, units *Units, worth func(text []byte) bool) *Entries {
	return &Entries{kind: kind, r: bufio.NewReaderSize(r, MaxLine), units: units, worth: worth}
}

// Next returns the next entry of a kubelet that is worth looking at, and its text: the MESSAGE, or
// the whole object of json-pretty. It is false at the end.
func (er *Entries) Next() (e Envelope, text string, ok bool) {
	for !er.done {
		er.at, text = er.next()
		if er.kind == entryPretty {
			if er.worth([]byte(text)) {
				e, ok = er.units.unwrapJSON(text)
			}
		} else {
			text = er.at.fields["MESSAGE"]
			e, ok = er.envelope(&er.at)
			ok = ok && er.worth([]byte(text))
		}
		if ok {
			return e, text, true
		}
	}
	return Envelope{}, "", false
}

// At returns the number of the line, and the offset, at which the MESSAGE of the entry stands.
func (er *Entries) At() (line int, offset int64) { return er.at.line, er.at.offset }

// Consumed returns how many bytes were read.
func (er *Entries) Consumed() int64 { return er.consumed }

// Err returns what ended the log, io.EOF at its end.
func (er *Entries) Err() error { return er.err }

// envelope returns an entry's message, when its trusted fields are a kubelet's.
func (er *Entries) envelope(e *entry) (Envelope, bool) {
	if e.twice || (e.more && !er.units.trusts(e.fields["_SYSTEMD_UNIT"], e.fields["_COMM"], e.fields["_UID"])) {
		return Envelope{}, false
	}
	env := Envelope{Transport: transportExport, Program: e.fields["SYSLOG_IDENTIFIER"], Text: e.fields["MESSAGE"], whole: true}
	if er.kind == entryVerbose {
		env.Transport = transportVerbose
		_, env.Time, _ = cutFull(e.time)
	}
	env.PID, _ = Number(e.fields["_PID"])
	if at, ok := micros(e.fields["__REALTIME_TIMESTAMP"]); ok {
		env.Time = at
	}
	return env, true
}

// next reads one entry, or for json-pretty one object's text.
func (er *Entries) next() (entry, string) {
	switch er.kind {
	case entryExport:
		return er.export(), ""
	case entryVerbose:
		return er.verbose(), ""
	case entryPretty, NoEntries:
	}
	return er.pretty()
}

// readLine reads a line without its newline, of at most MaxLine bytes; the rest of a
// longer one is skipped.
func (er *Entries) readLine() (string, bool) {
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
func (er *Entries) export() entry {
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
func (er *Entries) binary() (string, bool) {
	var length [8]byte
	n, err := io.ReadFull(er.r, length[:])
	er.consumed += int64(n)
	if err != nil {
		er.cut(err)
		return "", false
	}
	er.line += strings.Count(string(length[:]), "\n")
	size := binary.LittleEndian.Uint64(length[:])
	kept := make([]byte, min(size, MaxLine))
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
func (er *Entries) cut(err error) {
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
func (er *Entries) verbose() entry {
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
func (er *Entries) headNext() bool {
	next, err := er.r.Peek(1)
	return err == nil && next[0] != ' '
}

func isFieldName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// pretty reads one object of journalctl -o json-pretty, or of jq, which starts and ends with
// a brace in the first column. One larger than MaxLine is skipped.
func (er *Entries) pretty() (entry, string) {
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
		if b.Len() <= 4*MaxLine {
			b.WriteString(line)
		}
		if line == "}" {
			return e, b.String()
		}
	}
}
