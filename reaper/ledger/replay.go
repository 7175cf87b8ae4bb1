package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
)

// DamagedError is the error of a ledger with a line that no crash of this program can have caused. Nothing was changed;
// an operator must inspect it.
type DamagedError struct {
	Path   string
	Line   int
	Reason string
}

// Error returns the line, the reason and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: line %d is damaged (%s): nothing was changed and nothing will be removed until it is repaired: "+
		"keep a copy, then delete that line, or move the file away to begin a new one "+
		"(the entries in quarantine are then kept; each has a manifest beside it)", e.Path, e.Line, e.Reason)
}

func errAttr(err error) slog.Attr { return slog.Any("error", err) }

// load opens the ledger and reads all of it. The caller holds the append lock, unless the store is read-only.
func (s *Store) load() error {
	if s.ledger.file != nil {
		if err := s.ledger.file.Close(); err != nil {
			return fmt.Errorf("cannot close %s: %w", s.ledgerPath(), err)
		}
	}
	s.ledger.reset()
	sent, err := s.readSent()
	if err != nil && !s.readOnly { // a reader repairs nothing
		return err
	}
	s.ledger.sent = sent
	flag := os.O_RDWR | os.O_CREATE
	if s.readOnly {
		flag = os.O_RDONLY
	}
	_, err = s.root.Lstat(ledgerFile)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := s.openRegular(ledgerFile, flag)
	if s.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.ledger.file = f
	if isNew && !s.readOnly {
		return s.syncDir()
	}
	return s.readOn()
}

// refresh reads what other processes have changed. The caller holds the append lock.
func (s *Store) refresh() error {
	if s.ledger.file == nil {
		return s.load() // the last load failed; after Close this fails too
	}
	there, err := s.root.Lstat(ledgerFile)
	if err != nil {
		return fmt.Errorf("cannot find the ledger that this process writes: %w", err)
	}
	ours, err := s.ledger.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
	}
	if !s.root.Same(there, ours) {
		return s.load() // another process has compacted it
	}
	if ours.Size() != s.ledger.size {
		if err := s.readOn(); err != nil {
			return err
		}
	}
	// Another process may have written events to the journal, also if it appended none.
	seen, err := s.readSent()
	if err != nil { // events may be sent twice, but a living pod is restored
		s.log.Warn("cannot find out which events another process has sent", errAttr(err))
	}
	s.ledger.sent = max(s.ledger.sent, seen)
	return nil
}

// readOn reads and folds the lines after the last one that was read.
func (s *Store) readOn() error {
	l := &s.ledger
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
	}
	end := info.Size()
	if end < l.size {
		return fmt.Errorf("cannot read %s: it was truncated from %d bytes to %d while it was open, so its last events are lost",
			s.ledgerPath(), l.size, end)
	}
	for line, err := range lines(l.file, l.size, end) {
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		r, err := decode(line)
		if err == nil && r.Seq <= l.seq {
			return &DamagedError{s.ledgerPath(), l.lines + 1, fmt.Sprintf("number %d comes after %d", r.Seq, l.seq)}
		}
		if err != nil {
			return s.unfinished(end, err)
		}
		if !r.Kind.Known() {
			return fmt.Errorf("cannot use %s: line %d is of the kind %.40q, which this program does not know: %w; "+
				"nothing was changed; install that one, or name another --state-dir", s.ledgerPath(), l.lines+1, r.Kind, ErrNewer)
		}
		l.apply(r, len(line))
	}
	return nil
}

// lines yields the lines of f from offset to end, each with its newline, which the last may lack. A line is valid until
// the next.
func lines(f io.ReaderAt, offset, end int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(f, offset, end-offset), int(min(end-offset, 64<<10)))
		var long []byte
		for {
			part, err := r.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, part...)
				continue
			}
			if len(long) > 0 {
				long = append(long, part...)
				part = long
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			if len(part) > 0 && !yield(part, nil) || err != nil {
				return
			}
			long = long[:0]
		}
	}
}

// unfinished handles the first line that cannot be decoded. A crash leaves the beginning of one write or, if the power
// failed between the file's size and its data, a run of zeros. No good line follows. Anything else is damage.
func (s *Store) unfinished(end int64, cause error) error {
	l := &s.ledger
	whole, zeros, good := false, false, false
	for line, err := range lines(l.file, l.size, end) {
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		_, bad := decode(line)
		good = good || bad == nil
		whole = whole || !errors.Is(bad, errNoNewline) || onlyNewlineWrong(line)
		zeros = zeros || bytes.Contains(line, fewestZeros) || line[len(line)-1] == 0
	}
	if good || whole && !zeros {
		return &DamagedError{s.ledgerPath(), l.lines + 1, cause.Error()}
	}
	if s.readOnly {
		return nil
	}
	return s.cutOff(end)
}

// onlyNewlineWrong reports whether only the last byte of the line is wrong: that is damage, not the beginning of a
// write.
func onlyNewlineWrong(line []byte) bool {
	mended := append(bytes.Clone(line[:len(line)-1]), '\n')
	_, bad := decode(mended)
	return bad == nil
}

// cutOff moves the unfinished end of the ledger to a file beside it.
func (s *Store) cutOff(end int64) error {
	l := &s.ledger
	aside, err := s.freeName("ledger.torn-")
	if err != nil {
		return err
	}
	err = s.spending(func() error {
		return s.replace(aside, func(f File) error {
			_, err := io.Copy(f, io.NewSectionReader(l.file, l.size, end-l.size))
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(l.size); err != nil {
		return fmt.Errorf("cannot cut off an unfinished line: %w", err)
	}
	if err := l.file.Datasync(); err != nil {
		return fmt.Errorf("cannot cut off an unfinished line: %w", err)
	}
	s.log.Warn("the last write to the ledger was incomplete; it was moved aside",
		slog.String("path", s.ledgerPath()), slog.Int64("offset", l.size), slog.Int64("bytes", end-l.size),
		slog.String("kept_as", aside))
	return nil
}
