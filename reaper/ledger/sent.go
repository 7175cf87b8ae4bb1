package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// sentFormat has a fixed width, so that overwriting the number in place is one write
// within one block: a crash leaves the old number or the new one.
const sentFormat = "%020d\n"

// Sent marks all events up to seq as written to the journal. The mark is not synced: after a crash some events are
// written again. If there are several processes, the caller of Unsent calls it before it ends Enter.
func (s *Store) Sent(seq int64) error {
	if s.readOnly {
		return ErrReadOnly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq > s.ledger.seq {
		return fmt.Errorf("cannot mark event %d as sent: the last one is %d", seq, s.ledger.seq)
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	there, err := s.readSent()
	if err != nil {
		return err
	}
	if seq > there {
		if _, err := s.sent.WriteAt(fmt.Appendf(nil, sentFormat, seq), 0); err != nil {
			return fmt.Errorf("cannot mark events as sent: %w", err)
		}
	}
	s.ledger.sent = max(s.ledger.sent, there, seq)
	return nil
}

// openSent opens the marker. It creates one if it is missing or damaged: then every event of the ledger is sent again.
func (s *Store) openSent() error {
	b, err := s.root.ReadFile(sentFile)
	if err == nil {
		_, err = parseSent(b)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("cannot find out which events the journal has: all are written again", errAttr(err))
		}
		if err := s.writeFile(sentFile, fmt.Appendf(nil, sentFormat, 0)); err != nil {
			return err
		}
	}
	s.sent, err = s.openRegular(sentFile, os.O_RDWR)
	return err
}

// readSent returns the marker's number, or 0 if there is none.
func (s *Store) readSent() (int64, error) {
	b, err := s.root.ReadFile(sentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the marker of sent events: %w", err)
	}
	return parseSent(b)
}

func parseSent(b []byte) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
	if err != nil || n < 0 || n > maxSeq {
		return 0, fmt.Errorf("cannot read the marker of sent events: %.30q is no number", b)
	}
	return n, nil
}
