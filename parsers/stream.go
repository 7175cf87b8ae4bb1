package parsers

import (
	"bytes"
	"time"
)

// Stream is the state of one stream of lines: one _STREAM_ID of the journal, or one file. Next sets Line.Whole and
// Line.Mixed of each line by the lines before it. The zero value is a stream that begins in the middle of a line.
//
// A pod can choose text that a kubelet prints raw, with newlines: an NFS path in mount's error, a probe's output, an event.
// The text after a newline then stands at the beginning of a line of the kubelet's own log, with any header. So a line may
// release a pod only if no line that may quote a text came in the second before it. journald ends an entry also at a NUL and
// at LineMax (48 KiB), and notes that in _LINE_BREAK; the rest is an entry of its own.
type Stream struct {
	known  bool      // the last line ended with a newline
	last   time.Time // of the last line
	part   time.Time // until when a line may be a part of a message with newlines
	quoted time.Time // until when it may be a part of a text that another line has quoted
	formats
}

// formats are the formats in which whole lines of a kubelet have come.
type formats struct{ text, json bool }

const (
	// moment bounds the time from the first line of a message to one that is not at once after another.
	moment = time.Second
	// atOnce bounds the time between two lines of one message.
	atOnce = 100 * time.Millisecond
	// DroppedID is the message ID of "Suppressed N messages from UNIT" (sd-messages.h).
	DroppedID = "a596d6fe7bfa4994828e72309e95d61e"
	// driver is the _TRANSPORT of the entries that journald writes itself.
	driver = "driver"
	// usualPriority is the priority of a stream's lines without a prefix (SyslogLevel= in systemd.exec(5)).
	usualPriority = "6"
)

// Begin notes that the next line may be in the middle of a message: lines before it were not read.
func (s *Stream) Begin(at time.Time) { s.part, s.last = at.Add(moment), at }

// Next takes the next line, which was written at the given time: journald's, or for a file the time of arrival.
func (s *Stream) Next(l *Line, at time.Time) {
	if l.Journal.Dropped() { // any line may be missing, also one that quotes a text
		l.Whole, s.known, s.last = false, false, at
		s.part = latest(s.part, at.Add(moment))
		return
	}
	usual := l.Journal == nil || l.Journal.Priority == usualPriority || l.Journal.Priority == ""
	part, quoted := s.within(&s.part, at), s.within(&s.quoted, at)
	l.Whole = s.known && usual && !part && !quoted && !breaks(l)
	s.note(l)
	s.known, s.last = !breaks(l), at
	follows := AfterText(l.Text)
	switch {
	case l.Journal == nil:
		follows = AfterLine(l.Text)
	case l.Journal.StreamID == "":
		follows = AfterTrimmed(l.Text)
	}
	switch {
	case !usual || follows == FollowsPart:
		s.part = at.Add(moment)
	case follows == FollowsQuoted:
		s.quoted = at.Add(moment)
	}
}

// Dropped reports whether journald notes with this entry that it has dropped others, of any stream. Every user may write the
// message ID, but no field that begins with an underscore.
func (j *Journal) Dropped() bool {
	return j != nil && j.MessageID == DroppedID && j.Transport == driver
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// within reports whether a line came before the end of a message, and puts off that end if it came at once after the line
// before: a message may have thousands of lines. A clock that was set back ends it.
func (s *Stream) within(until *time.Time, at time.Time) bool {
	if at.After(*until) || at.Before(until.Add(-2*moment)) {
		return false
	}
	if later := at.Add(atOnce); at.Sub(s.last).Abs() <= atOnce && later.After(*until) {
		*until = later
	}
	return true
}

// note remembers the format of a whole line of a kubelet, and marks the line if the stream has both.
func (s *Stream) note(l *Line) {
	if !l.Whole {
		return
	}
	e, ok := envelope{text: string(l.Text)}, true
	if l.Journal == nil {
		e, ok = unwrap(string(l.Text[:min(len(l.Text), maxHead)]))
	}
	switch {
	case !ok || e.named && !kubeletProgram(e.program):
	case bytes.HasPrefix([]byte(e.text), []byte(`{"ts":`)):
		s.json = true
	case hasHeader(e.text) || anyHeader.MatchString(e.text):
		s.text = true
	}
	l.Mixed = s.text && s.json
}

// breaks reports whether the line may end within a line: by journald's field, by its length, or, in a syslog file, at a
// length at which a daemon cuts: logger(1) at 1,024 bytes, journald before 235 at 2,048, rsyslog at 8 KiB, with a header.
func breaks(l *Line) bool {
	n := len(l.Text)
	switch {
	case n > MaxLine:
		return true
	case l.Journal != nil && (l.Journal.LineBreak != "" || l.Journal.StreamID != ""):
		return l.Journal.LineBreak != ""
	case l.Journal != nil || l.Syslog:
		return n >= 1000 && n < 1200 || n >= 2000
	}
	return false
}
