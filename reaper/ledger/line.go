package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// A line of the ledger is one event in JSON. Its last field is a checksum, CRC-32C
// (Castagnoli) in hexadecimal, of every byte before that field:
//
//	{"seq":7,"kind":"quarantined",…,"text":""    ,"crc":"89abcdef"}    \n
//	------------ the summed part --------
const (
	sumField = `,"crc":"`
	sumEnd   = "\"}\n"
	sumTail  = len(sumField) + 8 + len(sumEnd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxSeq is the highest number of an event. A higher number is damage, and the next number would overflow.
const maxSeq = 1 << 53

// fewestZeros is the shortest run of zeros inside a line that counts as the result of a power cut, which loses whole
// sectors. A single zero is a bit flip.
var fewestZeros = make([]byte, 4)

var (
	// errNoNewline is the error of an incomplete line.
	errNoNewline = errors.New("it does not end")
	errSum       = errors.New("its checksum is wrong")
)

// encode appends the line of one event to buf.
func encode(buf *bytes.Buffer, r judge.Event) error {
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

// decode parses one line with its newline. It ignores fields that an event does not have.
func decode(line []byte) (judge.Event, error) {
	var r judge.Event
	if !bytes.HasSuffix(line, []byte{'\n'}) {
		return r, errNoNewline
	}
	body := line[:max(0, len(line)-sumTail)]
	if want := appendSum(nil, body); !bytes.Equal(line[len(body):], want) {
		return r, errSum
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Kind == "" || r.Seq <= 0 || r.Seq > maxSeq {
		return r, errors.New("it has no kind or no number")
	}
	return r, nil
}
