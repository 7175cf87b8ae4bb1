package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// entry is one entry of the journal.
type entry struct {
	cursor   string
	messages [][]byte
	fields   parsers.JournalFields
	piece    piece
}

// values are all values of one field. journalctl prints a field (journal JSON format,
// systemd.io/JOURNAL_EXPORT_FORMATS) as
//
//	"text"             a value that is UTF-8
//	[104,105]          a value that is not UTF-8, as numbers
//	["a", [104,105]]   a field that the entry has more than once
//	null               a value that is too long, without --all
type values [][]byte

func (v *values) UnmarshalJSON(b []byte) error {
	*v = nil
	if one, err := value(b); err == nil {
		if one != nil {
			*v = values{one}
		}
		return nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		one, err := value(p)
		if err != nil {
			return err
		}
		if one != nil {
			*v = append(*v, one)
		}
	}
	return nil
}

// value decodes a string or an array of numbers; it returns nil for null.
func value(b []byte) ([]byte, error) {
	if bytes.Equal(b, []byte("null")) {
		return nil, nil
	}
	if b[0] == '"' {
		var s string
		err := json.Unmarshal(b, &s)
		return []byte(s), err
	}
	var numbers []uint8Number
	if err := json.Unmarshal(b, &numbers); err != nil || len(numbers) == 0 {
		return nil, err
	}
	text := make([]byte, len(numbers))
	for i, n := range numbers {
		text[i] = byte(n)
	}
	return text, nil
}

// uint8Number makes encoding/json decode an array of numbers: for uint8 it expects base64.
type uint8Number uint8

// single returns the only value of a field, "" if it has none or several.
func (v values) single() string {
	if len(v) != 1 {
		return ""
	}
	return string(v[0])
}

var errNoEntry = errors.New("it is not a journal entry")

// decodeEntry decodes one line of journalctl --output=json.
func decodeEntry(line []byte) (entry, error) {
	var raw struct {
		Cursor     values `json:"__CURSOR"`
		Realtime   values `json:"__REALTIME_TIMESTAMP"`
		Message    values `json:"MESSAGE"`
		PID        values `json:"_PID"`
		Comm       values `json:"_COMM"`
		UID        values `json:"_UID"`
		Unit       values `json:"_SYSTEMD_UNIT"`
		BootID     values `json:"_BOOT_ID"`
		Identifier values `json:"SYSLOG_IDENTIFIER"`
		Stream     values `json:"_STREAM_ID"`
		Transport  values `json:"_TRANSPORT"`
		LineBreak  values `json:"_LINE_BREAK"`
		Priority   values `json:"PRIORITY"`
		MessageID  values `json:"MESSAGE_ID"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return entry{}, fmt.Errorf("cannot decode a journal entry: %w", err)
	}
	if raw.Cursor.single() == "" {
		return entry{}, errNoEntry
	}
	e := entry{cursor: raw.Cursor.single(), messages: raw.Message}
	for i, m := range e.messages {
		e.messages[i] = m[:min(len(m), maxText)]
	}
	e.fields = parsers.JournalFields{
		Unit: raw.Unit.single(), Comm: raw.Comm.single(), UID: raw.UID.single(), BootID: raw.BootID.single(), Identifier: raw.Identifier.single(),
	}
	e.piece = piece{
		stream: raw.Stream.single(), transport: raw.Transport.single(), lineBreak: raw.LineBreak.single(),
		priority: raw.Priority.single(), messageID: raw.MessageID.single(),
	}
	if len(raw.LineBreak) > 1 {
		e.piece.lineBreak = "more than one"
	}
	if pid, err := strconv.ParseInt(raw.PID.single(), 10, 32); err == nil && pid > 0 {
		e.fields.PID = int(pid)
	}
	if us, err := strconv.ParseInt(raw.Realtime.single(), 10, 64); err == nil && us > 0 {
		e.fields.Time = time.UnixMicro(us)
	}
	return e, nil
}
