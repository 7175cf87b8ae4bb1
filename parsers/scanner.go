package parsers

import (
	"bytes"
	"errors"
	"io"
)

// blockSize is how much is read and searched at once: enough for few system calls,
// little enough for the processor's cache.
const blockSize = 512 << 10

// A Scanner reads a log and yields its sightings. It searches whole blocks for the few
// lines that a Parser must see (Index) and parses only those, so that it reads a log about as
// fast as grep. Lines may have any length and hold any byte: of a line longer than a
// block the head is parsed and the rest skipped, in bounded memory.
//
// A Scanner opens and closes nothing.
type Scanner struct {
	src    io.Reader
	parser *Parser

	buf   []byte
	start int   // buf[start:end] is not parsed yet; start begins a line
	limit int   // buf[start:limit] are whole lines, or all that the log has
	end   int   // of what was read
	base  int64 // the offset of buf[0]
	line  int   // the newlines before start
	cri   bool  // a block began or ended with a CRI record
	eof   bool
	err   error

	sighting       Sighting
	sightingLine   int
	sightingOffset int64
}

// NewScanner returns a Scanner that reads from r.
func NewScanner(r io.Reader, o Options) *Scanner {
	return &Scanner{src: r, parser: NewParser(o), buf: make([]byte, blockSize)}
}

// Scan advances to the next sighting. It returns false at the end and on an error.
func (s *Scanner) Scan() bool {
	for {
		for s.start < s.limit {
			if s.next() {
				return true
			}
		}
		switch {
		case s.eof:
			return false
		case s.start == 0 && s.end == len(s.buf):
			if s.longLine() {
				return true
			}
		default:
			s.fill()
		}
	}
}

// Sighting returns what Scan found.
func (s *Scanner) Sighting() Sighting { return s.sighting }

// Line returns the number of the sighting's line, the first being 1.
func (s *Scanner) Line() int { return s.sightingLine }

// Offset returns where the sighting's line starts.
func (s *Scanner) Offset() int64 { return s.sightingOffset }

// Consumed returns how many bytes of whole lines have been parsed: where another
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

// next parses the next line that the parser must see, and goes past it.
func (s *Scanner) next() bool {
	lines, at := s.buf[s.start:s.limit], 0
	if !s.parser.inLine() {
		if at = index(lines, s.parser.hints, s.cri); at < 0 {
			s.advance(len(lines))
			return false
		}
	}
	s.advance(bytes.LastIndexByte(lines[:at], '\n') + 1)
	lines = s.buf[s.start:s.limit]
	line, _, whole := bytes.Cut(lines, newline)
	found := s.parse(line)
	s.start += len(line)
	if whole {
		s.start, s.line = s.start+1, s.line+1
	}
	return found
}

func (s *Scanner) parse(line []byte) bool {
	found, ok := s.parser.Parse(Line{Text: line})
	if ok {
		s.sighting, s.sightingLine, s.sightingOffset = found, s.line+1, s.base+int64(s.start)
	}
	return ok
}

func (s *Scanner) advance(n int) {
	s.line += bytes.Count(s.buf[s.start:s.start+n], newline)
	s.start += n
}

var newline = []byte{'\n'}

// fill moves what is left to the front and reads once.
func (s *Scanner) fill() {
	s.base += int64(s.start)
	s.end = copy(s.buf, s.buf[s.start:s.end])
	s.start, s.limit = 0, 0
	n, err := 0, error(nil)
	for tries := 0; n == 0 && err == nil; tries++ {
		if tries == 100 {
			err = io.ErrNoProgress
			break
		}
		n, err = s.src.Read(s.buf[s.end:])
	}
	from := s.end
	s.end += n
	if at := bytes.LastIndexByte(s.buf[from:s.end], '\n'); at >= 0 {
		s.limit = from + at + 1
	}
	if err != nil {
		s.eof, s.err, s.limit = true, err, s.end
	}
	whole := bytes.TrimSuffix(s.buf[:s.limit], newline)
	s.cri = s.cri || beginsCRI(whole) || beginsCRI(whole[bytes.LastIndexByte(whole, '\n')+1:])
}

// longLine parses the head of a line that fills the buffer and skips the rest.
func (s *Scanner) longLine() bool {
	found := s.parse(s.buf[:maxLine])
	for s.limit == 0 && !s.eof {
		s.start = s.end
		s.fill()
	}
	if at := bytes.IndexByte(s.buf[:s.limit], '\n'); at >= 0 {
		s.start, s.line = at+1, s.line+1
	} else {
		s.start = s.limit
	}
	return found
}
