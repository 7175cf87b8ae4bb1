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
	// writeTime is longer than a write(2) takes, with the tick by which a file system counts.
	writeTime = 20 * time.Millisecond
)

// recent finds lines that may belong to a message with newlines.
type recent struct {
	marks   []mark   // the first is the last that is older than a moment
	checked int64    // where the lines begin that were not looked at
	last    [3]int64 // the last line of each kind, or -1
	settled bool     // this is not the first file, or its end was reached while nothing was written
}

// mark is a time, and where the lines begin that were read later.
type mark struct {
	at     time.Time
	offset int64
}

func (r *recent) mark(now time.Time, offset int64) {
	if n := len(r.marks); n > 1 && now.Sub(r.marks[n-2].at) < moment/10 {
		r.marks = r.marks[:n-1]
	}
	r.marks = append(r.marks, mark{now, offset})
	for len(r.marks) > 1 && now.Sub(r.marks[1].at) > moment {
		r.marks = r.marks[1:]
	}
}

// markEnd marks the end of what was read, if that is the end of the file and no write is under way. What was in the first file
// when it was opened may be of any age, so its end counts at once: a command looks for seconds only.
func (t *tailed) markEnd() {
	if info, err := t.file.Stat(); err == nil && info.Size() == t.blocks.Next() && t.now().Sub(info.ModTime()) > writeTime {
		if !t.recent.settled {
			t.recent.settled, t.recent.marks = true, []mark{{t.now(), min(t.info.Size(), t.blocks.Whole())}}
		}
		t.recent.mark(t.now(), t.blocks.Whole())
	}
}

// follows returns what the lines that were written within a moment before the one at start mean for it. What cannot be
// determined is FollowsPart.
func (r *recent) follows(file io.ReaderAt, start int64) parsers.Follows {
	floor := r.marks[0].offset
	if start-floor > most {
		return parsers.FollowsPart
	}
	from := max(0, max(floor, r.checked)-1) // with the newline before, since floor may be within a line
	text := bufio.NewReaderSize(io.NewSectionReader(file, from, start-from), 64<<10)
	begins := from == 0
	for at := from; at < start; {
		line, err := text.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return parsers.FollowsPart
		}
		if begins {
			r.last[parsers.AfterLine(bytes.TrimSuffix(line, []byte("\n")))] = at
		}
		begins = err == nil
		at += int64(len(line))
	}
	r.checked = max(r.checked, start)
	for _, kind := range [...]parsers.Follows{parsers.FollowsPart, parsers.FollowsQuoted} {
		if r.last[kind] >= floor {
			return kind
		}
	}
	return parsers.FollowsAny
}

// whole reports whether a line is known to be the beginning of a message.
func (t *tailed) whole(l parsers.RawLine) bool {
	if l.Start == 0 {
		return true
	}
	text := make([]byte, min(l.Start, 2200))
	if _, err := t.file.ReadAt(text, l.Start-int64(len(text))); err != nil || text[len(text)-1] != '\n' {
		return false
	}
	line := text[:len(text)-1]
	if mayBeCut(len(line) - 1 - bytes.LastIndexByte(line, '\n')) {
		return false
	}
	follows := t.recent.follows(t.file, l.Start)
	return follows == parsers.FollowsAny || follows == parsers.FollowsQuoted && !parsers.Reports(l.Text)
}
