package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// A line of a file may begin with a pod's text for the reasons in whole.go: a logging daemon has cut the line before, or a
// message has newlines. A file has neither fields nor a trusted time, so the time when a line was read decides what came
// within a moment of it. Only lines before a report are looked at.

const (
	// before is how much of a file is looked at before the place where reading begins.
	before = 64 << 10
	// most bounds what is looked at before a line. In a log that grows faster no line is whole.
	most = 4 << 20
)

// recent finds lines that may belong to a message with newlines.
type recent struct {
	marks     []mark // the first is the last that is older than a moment
	checked   int64  // where the lines begin that were not looked at
	continued int64  // the last line that may continue a message, or -1
}

// mark is a time, and where the lines begin that were read later.
type mark struct {
	at     time.Time
	offset int64
}

func (r *recent) mark(now time.Time, offset int64) {
	if now.Sub(r.marks[len(r.marks)-1].at) > moment/10 {
		r.marks = append(r.marks, mark{now, offset})
	}
	for len(r.marks) > 1 && now.Sub(r.marks[1].at) > moment {
		r.marks = r.marks[1:]
	}
}

// before reports whether a line that may continue a message was written within a moment before the one at start, or that
// cannot be determined.
func (r *recent) before(file io.ReaderAt, start int64) bool {
	floor := r.marks[0].offset
	if start-floor > most {
		return true
	}
	from := max(0, max(floor, r.checked)-1) // with the newline before, since floor may be within a line
	text := bufio.NewReaderSize(io.NewSectionReader(file, from, start-from), 64<<10)
	begins := from == 0
	for at := from; at < start; {
		line, err := text.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return true
		}
		if begins && parsers.MayContinue(bytes.TrimSuffix(line, []byte("\n"))) {
			r.continued = at
		}
		begins = err == nil
		at += int64(len(line))
	}
	r.checked = max(r.checked, start)
	return r.continued >= floor
}

// whole reports whether the line at start is known to be the beginning of a message.
func (t *tailed) whole(start int64) bool {
	if start == 0 {
		return true
	}
	text := make([]byte, min(start, 2200))
	if _, err := t.file.ReadAt(text, start-int64(len(text))); err != nil || text[len(text)-1] != '\n' {
		return false
	}
	line := text[:len(text)-1]
	return !mayBeCut(len(line)-1-bytes.LastIndexByte(line, '\n')) && !t.recent.before(t.file, start)
}
