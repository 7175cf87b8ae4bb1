package source

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// journald ends an entry of a stdout stream at a newline, but also at a NUL and at LineMax (48 KiB), which it records in
// _LINE_BREAK (systemd.journal-fields(7)), and begins another entry with the rest. That entry has the kubelet's trusted
// fields, but a pod may have chosen its text, since kubelets log the output of probes. So an entry is a whole line only if
// neither it nor the previous one in its stream has a _LINE_BREAK. Besides:
//
//   - journald drops entries of a busy unit, by priority, and records that with the message ID dropped. A line that starts
//     with "<3>" has another priority (sd-daemon(3)), and so passes when others are dropped. klog writes no such prefix, so
//     an entry without the default priority is only a hint.
//   - A message with newlines makes several entries that do not begin like a line of a log, such as mount's errors with
//     names of a pod's volumes. An entry within a moment of one may belong to it. A message may also quote a text of which
//     already the second line looks like a report.
//   - journald before 235 has neither _LINE_BREAK nor _STREAM_ID, and breaks a line at 2,048 bytes; logger(1) does at 1,024.

const (
	// dropped is the message ID of "Suppressed N messages from UNIT" (sd-messages.h).
	dropped = "a596d6fe7bfa4994828e72309e95d61e"
	// usualPriority is the priority of a stream's lines without a prefix (SyslogLevel= in systemd.exec(5)).
	usualPriority = "6"
	// moment bounds the time from the first entry of a message to one that is not at once after another.
	moment = time.Second
	// atOnce bounds the time between two entries of one message.
	atOnce = 100 * time.Millisecond
	// maxStreams bounds the streams in memory. A kubelet has one or two.
	maxStreams = 64
	// maxLookups bounds the lookups of one child, since any process can write entries.
	maxLookups = 32
	// lookupEntries is how many entries one lookup reads.
	lookupEntries = 16
)

// piece has the fields that show whether an entry is a whole line.
type piece struct {
	stream    string // _STREAM_ID
	transport string // _TRANSPORT
	lineBreak string // _LINE_BREAK
	priority  string // PRIORITY
	messageID string // MESSAGE_ID
}

// key identifies an entry's stream; "" is unknown.
func (e *entry) key() string {
	switch {
	case e.piece.stream != "":
		return e.piece.stream
	case e.fields.PID > 0:
		return strconv.Itoa(e.fields.PID) + " " + e.fields.BootID
	}
	return ""
}

// stream is the state of one stream's entries so far. The zero value is an unknown stream.
type stream struct {
	known  bool
	broken bool      // the last entry did not end with a newline
	last   time.Time // of the last entry
	part   time.Time // until when an entry may be a part of a message with newlines
	quoted time.Time // until when it may be a part of a text that another has quoted
}

// within reports whether an entry came before the end of a message, and puts off that end if it came at once after the one
// before: a message may have thousands of lines. A clock that was set back ends it.
func (s *stream) within(until *time.Time, at time.Time) bool {
	if at.After(*until) || at.Before(until.Add(-2*moment)) {
		return false
	}
	if later := at.Add(atOnce); at.Sub(s.last).Abs() <= atOnce && later.After(*until) {
		*until = later
	}
	return true
}

// next adds the next entry, and reports whether it is a whole line.
func (s *stream) next(e *entry) bool {
	usual := e.piece.priority == usualPriority || e.piece.priority == ""
	part, quoted := s.within(&s.part, e.fields.Time), s.within(&s.quoted, e.fields.Time)
	whole := s.known && !s.broken && !e.breaks() && usual && !part && (!quoted || !slices.ContainsFunc(e.messages, parsers.Reports))
	s.known, s.broken, s.last = true, e.breaks(), e.fields.Time
	switch follows := e.follows(); {
	case !usual || follows == parsers.FollowsPart:
		s.part = e.fields.Time.Add(moment)
	case follows == parsers.FollowsQuoted:
		s.quoted = e.fields.Time.Add(moment)
	}
	return whole
}

// breaks reports whether the entry may end within a line.
func (e *entry) breaks() bool {
	if e.piece.lineBreak != "" || e.piece.stream != "" {
		return e.piece.lineBreak != ""
	}
	n := 0
	for _, m := range e.messages {
		n = max(n, len(m))
	}
	return mayBeCut(n)
}

// mayBeCut reports whether a line of n bytes may have been cut: by logger(1) at 1,024 bytes, by journald
// before 235 at 2,048, by rsyslog at 8 KiB, with or without a syslog header.
func mayBeCut(n int) bool { return n >= 1000 && n < 1200 || n >= 2000 }

func (e *entry) follows() parsers.Follows {
	if len(e.messages) != 1 {
		return parsers.FollowsPart
	}
	if e.piece.stream == "" {
		return parsers.AfterStripped(e.messages[0])
	}
	return parsers.AfterText(e.messages[0])
}

// whole reports whether an entry is a whole line of its process. It looks up the previous entry of the
// stream if that was not read. every reports that all entries are read.
func (j *Journal) whole(ctx context.Context, e *entry, every bool) bool {
	if e.piece.messageID == dropped {
		clear(j.streams) // any stream may have lost an entry
		return false
	}
	if e.piece.transport == "" && e.piece.stream == "" {
		return e.piece.lineBreak == "" // journald did not write it: its entries have a transport
	}
	key := e.key()
	if key == "" {
		return false
	}
	s := j.streams[key]
	if (!every || !s.known) && slices.ContainsFunc(e.messages, parsers.Interesting) {
		s = j.before(ctx, e)
	}
	whole := s.next(e)
	if !every {
		return whole
	}
	if len(j.streams) >= maxStreams {
		clear(j.streams)
	}
	j.streams[key] = s
	return whole
}

// text returns the part of an entry that is the same in repeated reports, without the time before it.
func (e *entry) text() string {
	if len(e.messages) == 0 {
		return ""
	}
	m := e.messages[0]
	m = m[max(0, parsers.Index(m)):]
	return string(m[:min(len(m), 256)])
}

// before looks up the previous entries of the stream of e. Each child looks up a text that the kubelet
// repeats only once.
func (j *Journal) before(ctx context.Context, e *entry) (s stream) {
	_, ok := cursorTime(e.cursor)
	text := e.text()
	if !ok || j.lookups >= maxLookups || len(e.messages) != 1 || j.lookedUp[text] {
		return s
	}
	j.lookedUp[text] = true
	j.lookups++
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	args := j.options(outputFields, "--reverse", "--lines="+strconv.Itoa(lookupEntries), "--cursor="+e.cursor)
	if e.piece.stream != "" {
		args = append(args, "_STREAM_ID="+e.piece.stream, "+")
	}
	if e.fields.PID > 0 && e.fields.BootID != "" {
		args = append(args, "_PID="+strconv.Itoa(e.fields.PID), "_BOOT_ID="+e.fields.BootID, "+")
	}
	args = append(args, "MESSAGE_ID="+dropped)
	var found []entry
	err := j.run(ctx, args, func(_ context.Context, line []byte) error {
		b, err := decodeEntry(line)
		if err != nil || len(found) > lookupEntries {
			return errNoEntry // an entry that cannot be read may be the previous one
		}
		found = append(found, b)
		return nil
	})
	if err != nil && !reachedEnd(err) {
		return s
	}
	return history(found, e)
}

// history returns the stream's state from the entries up to e, youngest first. If e is the only one, it begins a
// line.
func history(found []entry, e *entry) (s stream) {
	if len(found) == 0 || found[0].cursor != e.cursor {
		return stream{}
	}
	s.known = len(found) < lookupEntries
	for i := len(found) - 1; i > 0; i-- {
		switch b := &found[i]; {
		case b.piece.messageID == dropped:
			s = stream{}
		case b.piece.transport != e.piece.transport:
		case b.piece.stream != e.piece.stream:
			// The process has another stream: journald was restarted, perhaps within a line.
			s = stream{last: s.last, part: s.part, quoted: s.quoted}
		default:
			s.next(b)
		}
	}
	return s
}
