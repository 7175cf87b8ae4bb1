package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// maxEntry bounds one line of the child's output, where a byte of a MESSAGE may take five.
	maxEntry = 5*parsers.MaxLine + 64<<10
	// waitDelay is how long a process that the child started may keep its output open.
	waitDelay = 2 * time.Second
	// outputFields are the fields to print. journalctl adds the cursor, the times and the boot ID.
	outputFields = "MESSAGE,_PID,_UID,_SYSTEMD_UNIT,_BOOT_ID,_STREAM_ID,_LINE_BREAK,PRIORITY,MESSAGE_ID,_TRANSPORT"
)

// mostStreams bounds the streams in memory. A kubelet has one or two.
const mostStreams = 64

// arguments returns what journalctl is called with. Without --all a long MESSAGE is null.
func (f *Follower) arguments() []string {
	since := "--since=-10s"
	if f.cfg.Recent {
		since = "--since=-5m"
	}
	args := []string{"--follow", "--no-pager", "--quiet", "--all", "--lines=all", "--output=json", "--output-fields=" + outputFields, since}
	for _, unit := range f.cfg.Units {
		args = append(args, "_SYSTEMD_UNIT="+unit, "+")
	}
	return append(args, "MESSAGE_ID="+parsers.DroppedID, "_TRANSPORT=driver")
}

// journal runs one journalctl and delivers its entries until it ends.
func (f *Follower) journal(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := f.command(ctx)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	var stderr head
	cmd.Stderr = &stderr
	// PR_SET_PDEATHSIG fires when the thread that forked ends (prctl(2)), and Go ends threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run journalctl: %w", err)
	}
	readErr := f.entries(ctx, out)
	cancel()
	if err := cmd.Wait(); readErr == nil {
		readErr = err
	}
	return fmt.Errorf("journalctl ended: %w: %s", readErr, stderr.String())
}

func (f *Follower) command(ctx context.Context) *exec.Cmd {
	program := f.cfg.Journalctl.Program
	if program == "" {
		program = "journalctl"
	}
	cmd := exec.CommandContext(ctx, program, f.arguments()...)
	// Our environment could set a pager, colours or another language, which change the output.
	cmd.Env = []string{"PATH=" + path(), "LC_ALL=C"}
	// A script on PATH may start other processes: kill them all by their process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Chroot: f.cfg.Journalctl.Root}
	if f.cfg.Journalctl.Root != "" {
		cmd.Dir = "/" // chroot(2) does not change the working directory
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = waitDelay
	return cmd
}

// entries delivers the entries in the output of journalctl.
func (f *Follower) entries(ctx context.Context, r io.Reader) error {
	streams := map[string]*parsers.Stream{}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := readLine(in)
		if l, ok := decode(text); ok {
			f.next(streams, &l)
			f.send(ctx, "journald", l)
		} else if len(text) > 0 { // too long, where journald.conf has a larger LineMax: a text that it quotes may go on in the next
			clear(streams)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// next sets whether the entry is a whole line, by those before it in its stream.
func (*Follower) next(streams map[string]*parsers.Stream, l *parsers.Line) {
	j := l.Journal
	if j.Dropped() {
		for _, s := range streams {
			s.Next(l, j.Time)
		}
		return
	}
	key := j.StreamID
	if key == "" { // written by sd_journal_send, or journald before 235
		key = strconv.Itoa(j.PID) + " " + j.BootID
	}
	if streams[key] == nil {
		if len(streams) >= mostStreams {
			clear(streams)
		}
		streams[key] = &parsers.Stream{}
		streams[key].Begin(j.Time)
	}
	streams[key].Next(l, j.Time)
}

// readLine returns the next line without its newline, cut to maxEntry: then it is no JSON, and no entry.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxEntry-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// value is one field of an entry (journal JSON format, systemd.io/JOURNAL_EXPORT_FORMATS): a string, an array of numbers
// for what is not UTF-8 or not printable, or an array of these for a field that the entry has more than once, which no field
// that we read has.
type value string

// UnmarshalJSON parses a string or an array of numbers. Anything else is an error.
func (v *value) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(v))
	}
	var numbers []uint16 // not uint8, which encoding/json parses as base64
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	text := make([]byte, len(numbers))
	for i, n := range numbers {
		text[i] = byte(n)
	}
	*v = value(text)
	return nil
}

// decode decodes one line of journalctl --output=json. It returns false for what is no entry.
func decode(line []byte) (parsers.Line, bool) {
	var raw struct {
		Cursor    value `json:"__CURSOR"`
		Realtime  value `json:"__REALTIME_TIMESTAMP"`
		Message   value `json:"MESSAGE"`
		PID       value `json:"_PID"`
		UID       value `json:"_UID"`
		Unit      value `json:"_SYSTEMD_UNIT"`
		BootID    value `json:"_BOOT_ID"`
		Stream    value `json:"_STREAM_ID"`
		LineBreak value `json:"_LINE_BREAK"`
		Priority  value `json:"PRIORITY"`
		MessageID value `json:"MESSAGE_ID"`
		Transport value `json:"_TRANSPORT"`
	}
	if len(line) == 0 || json.Unmarshal(line, &raw) != nil || raw.Cursor == "" {
		return parsers.Line{}, false
	}
	j := parsers.Journal{
		Unit: string(raw.Unit), UID: string(raw.UID), BootID: string(raw.BootID), StreamID: string(raw.Stream),
		LineBreak: string(raw.LineBreak), Priority: string(raw.Priority), MessageID: string(raw.MessageID),
		Transport: string(raw.Transport),
	}
	if pid, err := strconv.ParseInt(string(raw.PID), 10, 32); err == nil && pid > 0 {
		j.PID = int(pid)
	}
	if us, err := strconv.ParseInt(string(raw.Realtime), 10, 64); err == nil && us > 0 {
		j.Time = time.UnixMicro(us)
	}
	return parsers.Line{Text: []byte(raw.Message), Source: j.Unit, Journal: &j}, true
}

// head keeps the beginning of what is written to it.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), 4<<10-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(h.text), "?")) }
