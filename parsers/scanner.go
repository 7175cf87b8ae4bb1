package parsers

import (
	"bytes"
	"errors"
	"io"

	"github.com/orphan-reaper/orphan-reaper/parsers/internal/transport"
)

const (
	// blockSize is how much is read and searched at once: enough for few system calls,
	// little enough for the processor's cache.
	blockSize = 512 << 10
	// lookBack is how much is kept before the block for what earlier lines say of a
	// line: two CRI records of 16 KiB with their heads.
	lookBack = 40 << 10
)

// A Scanner reads a log and yields its sightings. It searches whole blocks for the few
// lines that can be one (Index) and parses only those, so that it reads a log about as
// fast as grep. Lines may have any length and hold any byte: of a line longer than a
// block the head is looked at and the rest skipped, in bounded memory.
//
// A Scanner opens and closes nothing.
type Scanner struct {
	src    io.Reader
	parser *Parser

	buf        []byte
	start, end int   // buf[start:end] is not searched yet; start is a line's start, as 0 is
	seen       int   // no newline in buf[start:seen]
	base       int64 // the offset of buf[0]
	line       int   // newlines before buf[counted]
	counted    int
	began      bool   // buf[0] is the log's first byte
	before     []byte // the head of the line before buf[0], nil where it is not known
	eof        bool
	err        error

	sighting       Sighting
	sightingLine   int
	sightingOffset int64
}

// NewScanner returns a Scanner that reads from r.
func NewScanner(r io.Reader, o Options) *Scanner {
	return &Scanner{src: r, parser: NewParser(o), buf: make([]byte, lookBack+blockSize), began: true}
}

// Scan goes on to the next sighting. It returns false at the end and on an error.
func (s *Scanner) Scan() bool {
	for {
		limit := s.limit()
		if limit > s.start {
			at := index(s.buf[s.start:limit], s.parser.hints, false)
			if at < 0 {
				s.start = limit
			} else if s.candidate(s.start+at, limit) {
				return true
			}
			continue
		}
		if s.eof {
			return false
		}
		s.shift()
		if s.end < len(s.buf) {
			s.fill()
		} else if s.longLine() {
			return true
		}
	}
}

// Sighting returns what Scan found.
func (s *Scanner) Sighting() Sighting { return s.sighting }

// Line returns the number of the sighting's line, the first being 1.
func (s *Scanner) Line() int { return s.sightingLine }

// Offset returns where the sighting's line starts.
func (s *Scanner) Offset() int64 { return s.sightingOffset }

// Consumed returns how many bytes of whole lines have been dealt with: where another
// reader goes on after a partial last line.
func (s *Scanner) Consumed() int64 {
	if s.start > 0 && s.buf[s.start-1] != '\n' {
		// The end of the log cut the last line.
		return s.base + int64(bytes.LastIndexByte(s.buf[:s.start], '\n')+1)
	}
	return s.base + int64(s.start)
}

// Err returns the reader's error, nil at the end of the log.
func (s *Scanner) Err() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// limit returns the end of the last whole line in the block, s.start where there is
// none, and the end of the log where that is in the block.
func (s *Scanner) limit() int {
	if s.eof {
		return s.end
	}
	from := max(s.start, s.seen)
	if n := bytes.LastIndexByte(s.buf[from:s.end], '\n'); n >= 0 {
		return from + n + 1
	}
	s.seen = s.end
	return s.start
}

// candidate parses the line around at, a needle's place.
func (s *Scanner) candidate(at, limit int) bool {
	from := s.start + bytes.LastIndexByte(s.buf[s.start:at], '\n') + 1
	to := limit
	if n := bytes.IndexByte(s.buf[at:limit], '\n'); n >= 0 {
		to = at + n
	}
	s.start = min(to+1, limit)
	return s.parse(from, to)
}

// parse parses the line buf[from:to] and notes where it is.
func (s *Scanner) parse(from, to int) bool {
	text := s.buf[from:to]
	if !s.setContext(text, from) {
		return false
	}
	found, ok := s.parser.Parse(Line{Text: text})
	if !ok {
		return false
	}
	s.line += bytes.Count(s.buf[s.counted:from], newline)
	s.counted = from
	s.sighting, s.sightingLine, s.sightingOffset = found, s.line+1, s.base+int64(from)
	return true
}

var newline = []byte{'\n'}

// setContext tells the parser what the lines before from say. It returns false where
// that matters and is not known: a CRI record may be the continuation of one that is
// no longer in the buffer.
func (s *Scanner) setContext(text []byte, from int) bool {
	s.parser.prev = context{}
	this, _, isCRI := transport.Piece(text)
	otherStream := false
	for n := 0; from > 0; n++ {
		to := from - 1 // The newline.
		from = bytes.LastIndexByte(s.buf[:to], '\n') + 1
		before := s.buf[from:to]
		if n == 0 {
			s.parser.observe(before[:min(len(before), transport.MaxLine)], nil)
		}
		if !isCRI {
			return true
		}
		if stream, partial, ok := transport.Piece(before); ok && stream == this {
			s.parser.prev.partial[stream] = partial
			return true
		} else if ok {
			otherStream = true
		}
	}
	if stream, partial, ok := transport.Piece(s.before); ok && isCRI {
		s.parser.prev.partial[this] = partial
		return stream == this
	}
	return s.began || !otherStream
}

// shift makes room: it drops what is searched, but for the last lookBack bytes of
// whole lines.
func (s *Scanner) shift() {
	keep := 0
	if s.start > lookBack {
		keep = s.start - lookBack
		if n := bytes.IndexByte(s.buf[keep-1:s.start], '\n'); n >= 0 {
			keep += n
		}
	}
	if keep == 0 {
		return
	}
	s.before = nil
	if keep == s.start {
		s.remember(bytes.LastIndexByte(s.buf[:keep-1], '\n') + 1)
	}
	s.line += bytes.Count(s.buf[s.counted:max(s.counted, keep)], newline)
	s.counted = max(s.counted, keep) - keep
	s.end = copy(s.buf, s.buf[keep:s.end])
	s.start -= keep
	s.seen = max(s.seen-keep, 0)
	s.base += int64(keep)
	s.began = false
}

// remember keeps the head of the line at from for the next line's context.
func (s *Scanner) remember(from int) {
	s.before = append(s.before[:0], s.buf[from:min(from+128, s.end)]...)
}

// fill reads once.
func (s *Scanner) fill() {
	for range 100 {
		n, err := s.src.Read(s.buf[s.end:])
		s.end += n
		if err != nil {
			s.eof, s.err = true, err
			return
		}
		if n > 0 {
			return
		}
	}
	s.eof, s.err = true, io.ErrNoProgress
}

// longLine deals with a line that fills the buffer: it parses the head and skips the
// rest.
func (s *Scanner) longLine() bool {
	found := s.parse(s.start, s.end)
	s.remember(s.start)
	s.line += bytes.Count(s.buf[s.counted:s.start], newline) + 1
	s.counted, s.start, s.seen, s.began = 0, 0, 0, false
	for !s.eof {
		s.base += int64(s.end)
		s.end = 0
		s.fill()
		if n := bytes.IndexByte(s.buf[:s.end], '\n'); n >= 0 {
			s.base += int64(n + 1)
			s.end = copy(s.buf, s.buf[n+1:s.end])
			return found
		}
	}
	s.base += int64(s.end)
	s.end = 0
	return found
}
