package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// A line of the ledger is one record in JSON. Its last field is a checksum, CRC-32C
// (Castagnoli) in hexadecimal, of every byte before that field:
//
//	{"seq":7,"kind":"parked",…,"text":""    ,"crc":"89abcdef"}    \n
//	------------ the summed part --------
//
// Lines of older programs have no checksum. They may contain only known fields, so that a line with a bit flip in
// the name of the checksum's field is not accepted as such a line.
const (
	sumField = `,"crc":"`
	sumEnd   = "\"}\n"
	sumTail  = len(sumField) + 8 + len(sumEnd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxSeq is the highest number of a record. A higher number is damage, and the next number would overflow.
const maxSeq = 1 << 53

// fewestZeros is the shortest run of zeros inside a line that counts as the result of a power cut, which loses whole
// sectors. A single zero is a bit flip.
var fewestZeros = make([]byte, 4)

var (
	// errNoNewline is the error of an incomplete line.
	errNoNewline = errors.New("it does not end")
	errSum       = errors.New("its checksum is wrong")
)

// encode appends the line of one record to buf.
func encode(buf *bytes.Buffer, r policy.Record) error {
	start := buf.Len()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - len("}\n"))
	buf.Write(appendSum(buf.AvailableBuffer(), buf.Bytes()[start:]))
	return nil
}

// appendSum appends the end of a line whose beginning is body.
func appendSum(to, body []byte) []byte {
	return fmt.Appendf(to, "%s%08x%s", sumField, crc32.Checksum(body, castagnoli), sumEnd)
}

// decode parses one line with its newline. It ignores unknown fields if the checksum is right; the version of
// the directory decides whether that is safe.
func decode(line []byte) (policy.Record, error) {
	var r policy.Record
	if !bytes.HasSuffix(line, []byte{'\n'}) {
		return r, errNoNewline
	}
	summed, err := checkSum(line)
	if err != nil {
		return r, err
	}
	read := unmarshalKnown
	if summed {
		read = json.Unmarshal
	}
	if err := read(line, &r); err != nil {
		return r, err
	}
	if r.Kind == "" || r.Seq <= 0 || r.Seq > maxSeq {
		return r, errors.New("it has no kind or no number")
	}
	return r, nil
}

// unmarshalKnown is json.Unmarshal with an error for a field that v does not have.
func unmarshalKnown(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the record")
	}
	return nil
}

// checkSum reports whether the line has a checksum, and returns an error if it is wrong.
func checkSum(line []byte) (bool, error) {
	body, tail := line[:max(0, len(line)-sumTail)], line[max(0, len(line)-sumTail):]
	if len(tail) < sumTail || !bytes.HasPrefix(tail, []byte(sumField)) || !bytes.HasSuffix(tail, []byte(sumEnd)) {
		return false, nil
	}
	if want := appendSum(nil, body); !bytes.Equal(tail, want) {
		return true, errSum
	}
	return true, nil
}
