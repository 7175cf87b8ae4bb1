package source

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// journald ends an entry of a stdout stream at a newline, but also at a NUL and at LineMax (48 KiB), which it records in
// _LINE_BREAK (systemd.journal-fields(7)), and begins another entry with the rest. That entry has the kubelet's own
// trusted fields, but a pod may have chosen its beginning: kubelets log the output of probes. So an entry is a whole line
// only if neither it nor the previous one in its stream has a _LINE_BREAK. Besides:
//
//   - journald drops entries of a busy unit, by priority, and records that with the message ID dropped. A line that starts
//     with "<3>" has another priority (sd-daemon(3)), and so passes when the others are dropped. klog writes no such
//     prefix: an entry with another priority than a stream's default is a hint.
//   - Messages with newlines make several entries, which do not begin as any line of a log does: mount's errors, with names
//     of a pod's volumes in them. What comes within a moment of one may belong to it.
//   - journald before 235 has neither _LINE_BREAK nor _STREAM_ID, and breaks a line at 2,048 bytes; logger(1) does at 1,024.

const (
	// dropped is the message ID of "Suppressed N messages from UNIT" (sd-messages.h).
	dropped = "a596d6fe7bfa4994828e72309e95d61e"
	// usualPriority is the priority of a stream's lines without a prefix (SyslogLevel= in systemd.exec(5)).
	usualPriority = "6"
	// moment bounds the time in which the pieces of one message are written.
	moment = time.Second
	// maxStreams bounds the streams in memory. A kubelet has one or two.
	maxStreams = 64
	// maxLookups bounds the lookups of one child: any process can write entries and must not start processes
	// without limit.
	maxLookups = 32
	// reach is how many entries before one are read.
	reach = 16
)

// piece are the fields that show whether an entry is a whole line.
type piece struct {
	stream    string // _STREAM_ID
	transport string // _TRANSPORT
	lineBreak string // _LINE_BREAK
	priority  string // PRIORITY
	messageID string // MESSAGE_ID
}

// key identifies an entry's stream; "" where nothing does.
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
	known   bool
	broken  bool      // the last one did not end with a newline
	foreign time.Time // when something came that may be the middle of a message
}

// next adds the next entry, and reports whether it is a whole line.
func (s *stream) next(e *entry) bool {
	usual := e.piece.priority == usualPriority || e.piece.priority == ""
	since := e.fields.Time.Sub(s.foreign)
	whole := s.known && !s.broken && !e.breaks() && usual && (since > moment || since < -moment)
	s.known, s.broken = true, e.breaks()
	if !usual || !e.begins() {
		s.foreign = e.fields.Time
	}
	return whole
}

// breaks reports whether the entry ends somewhere in a line, or may.
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

// mayBeCut reports whether a line of n bytes may have been cut at its end: by logger(1) at
// 1,024, by journald before 235 at 2,048, by rsyslog at 8 KiB, with some bytes of a
// syslog line's head before it.
func mayBeCut(n int) bool { return n >= 1000 && n < 1200 || n >= 2000 }

// beginning is that of a line of a log: klog's header, JSON, logfmt (k3s, k0s), or a tab, with which klog
// puts a value's further lines (and " >" after the last). In all of these what comes from a pod is quoted.
var beginning = regexp.MustCompile(`^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |time="|\{"|\t| >)`)

func (e *entry) begins() bool { return len(e.messages) == 1 && beginning.Match(e.messages[0]) }

// whole reports whether an entry is a whole line of what its process wrote. Where the entry before it
// in its stream was not read, it is looked up. every reports that all entries are read.
func (j *Journal) whole(ctx context.Context, e *entry, every bool) bool {
	if e.piece.messageID == dropped {
		clear(j.streams) // what came last is not known for any stream
		return false
	}
	if e.piece.transport == "" && e.piece.stream == "" {
		return e.piece.lineBreak == "" // Not written by journald, which names a transport in every entry.
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

// text returns the part of an entry that two reports of the same have in common: the times before it
// are left out.
func (e *entry) text() string {
	if len(e.messages) == 0 {
		return ""
	}
	m := e.messages[0]
	m = m[max(0, parsers.Index(m)):]
	return string(m[:min(len(m), 256)])
}

// before looks up the last entries before one of its stream. A text that the kubelet repeats is looked
// up once by each child.
func (j *Journal) before(ctx context.Context, e *entry) (s stream) {
	_, ok := cursorTime(e.cursor)
	text := e.text()
	if !ok || j.lookups >= maxLookups || len(e.messages) != 1 || j.asked[text] {
		return s
	}
	j.asked[text] = true
	j.lookups++
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	args := j.options(outputFields, "--reverse", "--lines="+strconv.Itoa(reach), "--cursor="+e.cursor)
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
		if err != nil || len(found) > reach {
			return errNoEntry // One that cannot be read may be the one that matters.
		}
		found = append(found, b)
		return nil
	})
	if err != nil && !reachedEnd(err) {
		return s
	}
	return history(found, e)
}

// history returns the stream's state from the entries before e, youngest first, with e itself the first. If no
// entry comes before it, e begins a line.
func history(found []entry, e *entry) (s stream) {
	if len(found) == 0 || found[0].cursor != e.cursor {
		return stream{}
	}
	s.known = len(found) < reach
	for i := len(found) - 1; i > 0; i-- {
		switch b := &found[i]; {
		case b.piece.messageID == dropped:
			s = stream{}
		case b.piece.transport != e.piece.transport:
		case b.piece.stream != e.piece.stream:
			// The same process in another stream: journald was restarted, perhaps in a line.
			s = stream{foreign: s.foreign}
		default:
			s.next(b)
		}
	}
	return s
}
