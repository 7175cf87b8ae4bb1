// Package parsers turns a line of a log into the kubelet's report about a pod.
//
// It opens nothing, reads no clock and imports nothing of ours but PodUID, so that it can be fuzzed. A report has what
// its line has. Whether it is the report of the kubelet that runs now is decided by judge.Credible.
//
//	Parse    a line that may release a pod, from its first byte to its last: klog's text and JSON, alone or behind the
//	         prefix of a syslog daemon, k0s or a CRI runtime, or in journald's JSON (in a file that counts as no report)
//	Find     the same words behind anything else, for display
//	Stream   which line is whole: no part of a text that another line quotes
//	Scan     a whole log, for the command parse
//
// The grammar knows the format strings of the kubelet's own source files (1.3 to 1.37) and compares from their beginning, so
// no text that the kubelet quotes in a probe's output or a volume's name is a report. A line with contradictory UIDs is none.
package parsers

import (
	"time"
)

// Kind is what a report means.
type Kind uint8

// The kinds. Nothing but Removal releases a pod.
const (
	None Kind = iota
	// Removal is a text of removeOrphanedPodVolumeDirs, or of the removal after it: the kubelet found the pod in none of
	// its sources, without a running container and without a volume, and could not remove its directory.
	Removal
	// Volumes is one of the two V(3) texts: a volume of the pod is in the volume manager or mounted. It keeps the pod,
	// and releases `orphan-reaper unmount`.
	Volumes
)

// String returns "removal", "volumes" or "none".
func (k Kind) String() string {
	switch k {
	case Removal:
		return "removal"
	case Volumes:
		return "volumes"
	case None:
	}
	return "none"
}

// Line is one line of a log as a source delivers it.
type Line struct {
	// Text is the line without its newline. It may contain any byte. The receiver owns it.
	Text []byte
	// Source is the unit for journald, or the path of the file, for display.
	Source string
	// Journal has the fields that journald itself adds to an entry (systemd.journal-fields(7)). It is nil for a file.
	Journal *Journal
	// File identifies the file that the line was read from: device and inode. It is nil for journald.
	File *File
	// Syslog is true for a file that a syslog daemon writes.
	Syslog bool
	// Whole is true if the line is known to be a complete line that its writer wrote as one, and no line of the second
	// before it in this stream may be a message with newlines. See Stream.
	Whole bool
	// Mixed is true if this stream had whole lines of the kubelet in the other format, text or JSON, since it was opened.
	Mixed bool
}

// Journal are the trusted fields of a journal entry.
type Journal struct {
	Unit      string    // _SYSTEMD_UNIT
	PID       int       // _PID
	UID       string    // _UID
	BootID    string    // _BOOT_ID, 32 hex digits
	StreamID  string    // _STREAM_ID
	LineBreak string    // _LINE_BREAK, "" for a whole line
	Priority  string    // PRIORITY: a line that begins with "<3>" has another than the stream (sd-daemon(3))
	MessageID string    // MESSAGE_ID
	Transport string    // _TRANSPORT: "driver" for journald's own entries (systemd.journal-fields(7))
	Time      time.Time // __REALTIME_TIMESTAMP
}

// File identifies a log file.
type File struct{ Dev, Ino uint64 }

// Report is what one line says about one pod.
type Report struct {
	Line
	UID    PodUID
	Kind   Kind
	Reason string // of a closed list: the corpus' values, testdata/ORIGIN.md
	Words  string // the kubelet's own words, for display: without header, escapes and counter
	// PID is the process ID in klog's header, 0 if the line has none (JSON).
	PID int
	// Header is the time in klog's header or of a JSON object, zero if there is none. klog's header has neither year nor
	// zone: HeaderZone is false then, and the time is in the year 0 and in UTC.
	Header     time.Time
	HeaderZone bool
	JSON       bool
	// Count is the number of errors of the same sweep, as the line has it, or NoCount.
	Count int
}

// NoCount is Report.Count if the line has no number of errors.
const NoCount = -1
