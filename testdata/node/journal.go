package main

import (
	"bytes"
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

var machineID = hexID("machine")[:32]

const (
	bootIDFile = "/proc/sys/kernel/random/boot_id"

	journalDir = "/var/log/journal"
	lineMax    = 48 << 10 // journald's LineMax=
	priority   = "6"      // of lines of a stream
)

// sink receives what the node's programs log: it is journald or syslogd, or leaves the files to the programs.
type sink struct {
	mu      sync.Mutex
	kind    string
	text    *os.File // NODE_LOG, or /var/log/messages
	journal *os.File
	boot    string // the boot ID
	number  int
	offset  time.Duration
}

// journalFile is the file of the journal. Its content is not that of a real one.
func (n *node) journalFile() string { return n.logDir + "/journal/" + machineID + "/system.journal" }

func (n *node) startLog() error {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return err
	}
	n.sink.kind, n.sink.boot = n.Log, strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", "")
	if n.sink.text, err = appendTo(n.log); err != nil {
		return err
	}
	if n.Log != "journal" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(n.journalFile()), 0o755); err != nil {
		return err
	}
	if n.sink.journal, err = appendTo(n.journalFile()); err != nil {
		return err
	}
	return n.sink.receive()
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
}

// reboot begins another boot and returns the content of bootIDFile.
func (s *sink) reboot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot = hexID("boot", s.boot)[:32]
	b := s.boot
	return b[:8] + "-" + b[8:12] + "-" + b[12:16] + "-" + b[16:20] + "-" + b[20:] + "\n"
}

func (s *sink) setOffset(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = d
}

// open returns the standard error of a program: the file at path, or a stream to journald or syslogd. journald's lines are
// also copied to that file.
func (s *sink) open(path, program, unit string) (*os.File, *stream, error) {
	if s.kind == "text" || s.kind == "json" {
		f, err := appendTo(path)
		return f, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	own, theirs := os.NewFile(uintptr(pair[0]), "stream"), os.NewFile(uintptr(pair[1]), "stderr")
	text := s.text
	if s.kind == "journal" {
		if text, err = appendTo(path); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	s.number++
	st := &stream{sink: s, text: text, program: program, unit: unit, id: hexID("stream", s.number)[:32]}
	s.mu.Unlock()
	go st.read(own)
	return theirs, st, nil
}

// stream is the standard error of a program.
type stream struct {
	sink              *sink
	text              *os.File
	program, unit, id string
	pid               int
}

// setPID sets the process that writes: journald and syslogd have it from the kernel.
func (st *stream) setPID(pid int) {
	if st == nil {
		return
	}
	st.sink.mu.Lock()
	defer st.sink.mu.Unlock()
	st.pid = pid
}

// read splits the stream as journald does: at newlines, at NULs and at LineMax, and marks what ended otherwise.
func (st *stream) read(from *os.File) {
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
func (st *stream) line(text []byte, lineBreak string) {
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

func (st *stream) fields(text []byte, lineBreak string) []field {
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
func (s *sink) entry(at time.Time, fields []field) {
	s.number++
	e := journalEntry{
		Realtime: at.UnixMicro(), Fields: append(fields, field{"_BOOT_ID", []byte(s.boot)}),
		Cursor: fmt.Sprintf("s=%s;i=%x;b=%s;m=%x;t=%x;x=%s", hexID("sequence")[:32], s.number, s.boot, s.number, at.UnixMicro(), hexID(s.number)[:16]),
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

// other writes a line of another program.
func (n *node) other(text string) error {
	const program, unit, pid = "other", "other.service", 4242
	if n.Log == "text" || n.Log == "json" {
		_, err := n.sink.text.WriteString(text + "\n")
		return err
	}
	st := &stream{sink: &n.sink, text: n.sink.text, program: program, unit: unit, pid: pid, id: hexID("other")[:32]}
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
