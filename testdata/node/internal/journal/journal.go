// Package journal is the stand-in of journald, of syslogd and of journalctl: what the node's programs write to their standard
// error becomes entries of a journal, lines of /var/log/messages, or nothing else than their own file.
package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	dir       = "/var/log/journal" // on the node
	machineID = "5b2d4c7a9e1f4036b8d05c61f7a2e394"
	lineMax   = 48 << 10 // journald's LineMax=
	priority  = "6"      // of lines of a stream
)

// BootIDFile has the boot ID of the kernel.
const BootIDFile = "/proc/sys/kernel/random/boot_id"

// Sink receives what the node's programs log. Its kind is journal, syslog, or text and json, which leave the files to the
// programs.
type Sink struct {
	kind    string
	mu      sync.Mutex
	text    *os.File // NODE_LOG, or /var/log/messages
	journal *os.File
	boot    string // the boot ID
	number  int
	offset  time.Duration
}

// New returns the sink of a kind. text is NODE_LOG, and logs what is /var/log on the node.
func New(kind, text, logs string) (*Sink, error) {
	boot, err := os.ReadFile(BootIDFile)
	if err != nil {
		return nil, err
	}
	s := &Sink{kind: kind, boot: strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", "")}
	if s.text, err = AppendTo(text); err != nil || kind != "journal" {
		return s, err
	}
	path := logs + "/journal/" + machineID + "/system.journal" // its content is not that of a real one
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if s.journal, err = AppendTo(path); err != nil {
		return nil, err
	}
	return s, s.Receive()
}

// AppendTo opens a file to append to it.
func AppendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
}

// Reboot begins another boot and returns the content of BootIDFile.
func (s *Sink) Reboot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	s.boot = hex.EncodeToString(id[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// SetOffset sets how much the node's clock is ahead of the machine's.
func (s *Sink) SetOffset(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = d
}

// Open returns the standard error of a program: the file at path, or a stream to journald or syslogd. journald's lines are
// also copied to that file.
func (s *Sink) Open(path, program, unit string) (*os.File, *Stream, error) {
	if s.kind == "text" || s.kind == "json" {
		f, err := AppendTo(path)
		return f, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	own, theirs := os.NewFile(uintptr(pair[0]), "stream"), os.NewFile(uintptr(pair[1]), "stderr")
	text := s.text
	if s.kind == "journal" {
		if text, err = AppendTo(path); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	s.number++
	st := &Stream{sink: s, text: text, program: program, unit: unit, id: fmt.Sprintf("%032x", s.number)}
	s.mu.Unlock()
	go st.read(own)
	return theirs, st, nil
}

// Stream is the standard error of a program.
type Stream struct {
	sink              *Sink
	text              *os.File
	program, unit, id string
	pid               int
}

// SetPID sets the process that writes: journald and syslogd have it from the kernel.
func (st *Stream) SetPID(pid int) {
	if st == nil {
		return
	}
	st.sink.mu.Lock()
	defer st.sink.mu.Unlock()
	st.pid = pid
}

// read splits the stream as journald does: at newlines, at NULs and at LineMax, and marks what ended otherwise.
func (st *Stream) read(from *os.File) {
	defer from.Close()
	var pending []byte
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		pending = append(pending, buffer[:count]...)
		for {
			at := bytes.IndexAny(pending, "\n\x00")
			switch {
			case at >= 0 && at <= lineMax:
				st.line(pending[:at], map[byte]string{'\n': "", 0: "nul"}[pending[at]])
				pending = pending[at+1:]
				continue
			case len(pending) > lineMax:
				st.line(pending[:lineMax], "line-max")
				pending = pending[lineMax:]
				continue
			}
			break
		}
		if err != nil {
			if len(pending) > 0 {
				st.line(pending, "eof")
			}
			return
		}
	}
}

// line writes one line to the journal or to syslog's file.
func (st *Stream) line(text []byte, lineBreak string) {
	s := st.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now().Add(s.offset)
	if s.kind == "syslog" {
		// rsyslog escapes control characters.
		escaped := strings.ReplaceAll(string(text), "\x00", "#000")
		_, _ = fmt.Fprintf(st.text, "%s node-1 %s[%d]: %s\n", at.Format(time.Stamp), st.program, st.pid, escaped)
		return
	}
	s.entry(at, st.fields(text, lineBreak))
	_, _ = fmt.Fprintf(st.text, "%s\n", text)
}

func (st *Stream) fields(text []byte, lineBreak string) []field {
	f := []field{
		{"MESSAGE", text},
		{"PRIORITY", []byte(priority)},
		{"SYSLOG_FACILITY", []byte("3")},
		{"SYSLOG_IDENTIFIER", []byte(st.program)},
		{"_PID", []byte(strconv.Itoa(st.pid))},
		{"_UID", []byte("0")},
		{"_COMM", []byte(st.program)},
		{"_SYSTEMD_CGROUP", []byte("/system.slice/" + st.unit)},
		{"_SYSTEMD_UNIT", []byte(st.unit)},
		{"_HOSTNAME", []byte("node-1")},
		{"_MACHINE_ID", []byte(machineID)},
		{"_TRANSPORT", []byte("stdout")},
		{"_STREAM_ID", []byte(st.id)},
	}
	if lineBreak != "" {
		f = append(f, field{"_LINE_BREAK", []byte(lineBreak)})
	}
	return f
}

// entry writes an entry of the journal: a line of JSON in which the values are base64.
func (s *Sink) entry(at time.Time, fields []field) {
	s.number++
	e := journalEntry{
		Realtime: at.UnixMicro(), Fields: append(fields, field{"_BOOT_ID", []byte(s.boot)}),
		Cursor: fmt.Sprintf("s=%s;i=%x;b=%s;m=%x;t=%x;x=%s", machineID, s.number, s.boot, s.number, at.UnixMicro(), fmt.Sprintf("%016x", s.number)),
	}
	text, _ := json.Marshal(e) // it has no errors
	_, _ = s.journal.Write(append(text, '\n'))
}

type field struct {
	Name  string
	Value []byte
}

type journalEntry struct {
	Cursor   string
	Realtime int64 // microseconds
	Fields   []field
}

func (e *journalEntry) get(name string) string {
	for _, f := range e.Fields {
		if f.Name == name {
			return string(f.Value)
		}
	}
	return ""
}

// Other writes a line of another program.
func (s *Sink) Other(text string) error {
	if s.kind == "text" || s.kind == "json" {
		_, err := s.text.WriteString(text + "\n")
		return err
	}
	st := &Stream{sink: s, text: s.text, program: "other", unit: "other.service", pid: 4242, id: fmt.Sprintf("%032x", 4242)}
	st.line([]byte(text), "")
	return nil
}

// value writes a value as journalctl's JSON does: text, or a list of numbers where it is not UTF-8.
func (f field) value() any {
	if utf8.Valid(f.Value) {
		return string(f.Value)
	}
	numbers := make([]int, len(f.Value))
	for i, b := range f.Value {
		numbers[i] = int(b)
	}
	return numbers
}
