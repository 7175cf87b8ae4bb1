package parsers

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

// blockSize is how much is read and searched at once: few system calls, and small enough for the processor's cache.
const blockSize = 256 << 10

var newline = []byte{'\n'}

// Blocks finds in the blocks of a log the few lines that a Parser must see (Index), about as fast as grep. Lines may
// have any length and contain any byte; it keeps only the head of a long line. It opens and reads nothing itself.
type Blocks struct {
	hints bool

	buf  []byte // the head of the last line, which has no newline yet, and room for a block
	head int    // the length of that head
	cut  bool   // the line is longer than its head
	from int64  // the offset of that line
	next int64  // the offset of the next block
	line int    // the number of lines before
}

// RawLine is one line that a Parser must see.
type RawLine struct {
	Text   []byte // without its newline; valid until the next line
	Cut    bool   // the line is longer than Text
	Start  int64  // its offset
	End    int64  // the offset of the next line
	Number int    // beginning with 1
}

// NewBlocks returns the Blocks of a log from an offset at which a line begins. hints is that of Parser.
func NewBlocks(hints bool, offset int64) *Blocks {
	return &Blocks{hints: hints, from: offset, next: offset}
}

// Room returns the buffer for the next block, which the caller then passes to Lines.
func (b *Blocks) Room() []byte {
	if b.buf == nil {
		b.buf = make([]byte, maxLine+blockSize)
	}
	return b.buf[b.head : b.head+blockSize]
}

// Next returns the offset of the next block.
func (b *Blocks) Next() int64 { return b.next }

// Whole returns the offset after the last line with a newline.
func (b *Blocks) Whole() int64 { return b.from }

// Lines yields the lines that end in the n bytes that were put into Room. The loop over them must end before the next
// block.
func (b *Blocks) Lines(n int) iter.Seq[RawLine] {
	return func(yield func(RawLine) bool) {
		data := b.buf[:b.head+n]
		offset := func(i int) int64 { return b.next + int64(i-b.head) } // unless the head is the cut line
		first := bytes.IndexByte(data[b.head:], '\n')
		if first < 0 {
			b.keep(data, n)
			return
		}
		begin, end := 0, b.head+bytes.LastIndexByte(data[b.head:], '\n')+1
		if b.cut {
			begin = b.head + first + 1
			if !b.give(data[:b.head], RawLine{Cut: true, Start: b.from, End: offset(begin)}, yield) {
				return
			}
		}
		for begin < end {
			hit := index(data[begin:end], b.hints)
			if hit < 0 {
				break
			}
			hit += begin
			start := begin + bytes.LastIndexByte(data[begin:hit], '\n') + 1
			stop := hit + bytes.IndexByte(data[hit:end], '\n')
			b.line += bytes.Count(data[begin:start], newline)
			if !b.give(data[start:stop], RawLine{Start: offset(start), End: offset(stop + 1)}, yield) {
				return
			}
			begin = stop + 1
		}
		b.line += bytes.Count(data[begin:end], newline)
		b.from, b.cut = offset(end), false
		b.keep(data[end:], n)
	}
}

// Last returns the last line of a log if it has no newline and a Parser must see it.
func (b *Blocks) Last() (last RawLine, ok bool) {
	if b.head > 0 {
		b.give(b.buf[:b.head], RawLine{Cut: true, Start: b.from, End: b.next}, func(l RawLine) bool {
			last, ok = l, true
			return true
		})
	}
	return last, ok
}

// keep saves the beginning of an unfinished line and skips the n bytes of the block.
func (b *Blocks) keep(line []byte, n int) {
	b.next += int64(n)
	if b.cut {
		return
	}
	b.cut = len(line) > maxLine
	b.head = copy(b.buf, line[:min(len(line), maxLine)])
}

// give completes l and yields it, unless a Parser need not see its head.
func (b *Blocks) give(text []byte, l RawLine, yield func(RawLine) bool) bool {
	b.line++
	if len(text) > maxLine {
		text, l.Cut = text[:maxLine], true
	}
	l.Text, l.Number = text, b.line
	return l.Cut && index(text, b.hints) < 0 || yield(l)
}

// Found is a sighting with its place in a log.
type Found struct {
	Sighting
	Line   int   // the number of its line, the first being 1
	Offset int64 // where the line starts
}

// Scan reads a log and yields its sightings. If r returns an error, the last pair has it, and the offset after the last
// line.
func Scan(r io.Reader, p Parser) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		b := NewBlocks(p.Hints, 0)
		parse := func(l RawLine) bool {
			s, ok := p.Parse(Line{Text: l.Text})
			return !ok || yield(Found{s, l.Number, l.Start}, nil)
		}
		for empty := 0; ; {
			n, err := r.Read(b.Room())
			for l := range b.Lines(n) {
				if !parse(l) {
					return
				}
			}
			if empty++; n > 0 {
				empty = 0
			}
			if err == nil && empty == 100 {
				err = io.ErrNoProgress
			}
			if err == nil {
				continue
			}
			if l, ok := b.Last(); ok && !parse(l) {
				return
			}
			if !errors.Is(err, io.EOF) {
				yield(Found{Offset: b.Whole()}, err)
			}
			return
		}
	}
}
