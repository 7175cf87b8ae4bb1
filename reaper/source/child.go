package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEntry bounds one line of the child's output, where a byte of a MESSAGE may take five.
	maxEntry  = 1 << 20
	maxStderr = 4 << 10
	// waitDelay is how long a process that the child started may keep its stderr open.
	waitDelay = 2 * time.Second
)

// childError describes how a child failed.
type childError struct {
	status int // exit status, -1 if a signal ended it
	stderr string
	err    error
}

func (e *childError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("journalctl ended: %v", e.err)
	}
	return fmt.Sprintf("journalctl ended: %v: %s", e.err, e.stderr)
}

func (e *childError) Unwrap() error { return e.err }

// run runs journalctl and calls each with every line of its output until that returns an error. It
// returns when the child has ended.
func (j *Journal) run(ctx context.Context, args []string, each func(context.Context, []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer func() { _ = out.Close() }() // only read
	var stderr head
	cmd := exec.CommandContext(ctx, j.opts.Program, args...)
	cmd.Stdout, cmd.Stderr = outW, &stderr
	// Our environment could set a pager, colours or another language, which change the output.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	// A script on PATH may start other processes: kill them all by their process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Chroot: j.opts.Root}
	if j.opts.Root != "" {
		cmd.Dir = "/" // chroot(2) does not change the working directory
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = waitDelay

	ended := make(chan error, 1)
	go func() { ended <- runLocked(cmd, outW) }()
	readErr := eachLine(out, func(line []byte) error { return each(ctx, line) })
	if readErr != nil {
		cancel()
	}
	waitErr := <-ended
	switch exit, ok := errors.AsType[*exec.ExitError](waitErr); {
	case readErr != nil:
		return readErr
	case ok:
		return &childError{status: exit.ExitCode(), stderr: stderr.String(), err: waitErr}
	case waitErr != nil:
		return fmt.Errorf("cannot run %s%s: %w", j.opts.Root, j.opts.Program, waitErr)
	}
	return nil
}

// runLocked runs the command on a thread that lives as long as the command: PR_SET_PDEATHSIG fires
// when the thread that forked ends (prctl(2)), and Go ends threads. It closes the write end
// once the child has its own.
func runLocked(cmd *exec.Cmd, outW *os.File) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	_ = outW.Close()
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// eachLine calls each with every line of r, without its newline, up to maxEntry bytes. The line is valid
// during the call.
func eachLine(r io.Reader, each func(line []byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxEntry-len(line))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("cannot read from journalctl: %w", err)
		}
		if err := each(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
		line = line[:0]
	}
}

// head keeps the beginning of the data written to it.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxStderr-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(h.text), "?")) }

// pattern finds the lines that parsers can use: reports of orphaned pods, and errors of UnmountVolume and
// UnmapVolume (with their steps TearDown, NewUnmounter, FindPluginByName, UnmapDevice and UnmapPodDevice) and of
// subpaths.
const pattern = `rphaned pod|Un(mount|map)Volume.*failed|cleaning subPath mounts`

// outputFields are the fields to print. journalctl adds the cursor and times.
const outputFields = "MESSAGE,_PID,_UID,_COMM,_SYSTEMD_UNIT,_BOOT_ID,SYSLOG_IDENTIFIER,_STREAM_ID,_TRANSPORT,_LINE_BREAK,PRIORITY,MESSAGE_ID"

// options returns the arguments of every journalctl. Without --all a long MESSAGE is null. A unit with
// LogNamespace= has a journal of its own, which only --namespace shows, since 245.
func (j *Journal) options(fields string, more ...string) []string {
	args := slices.Clone(j.opts.Args)
	args = append(args, "--no-pager", "--quiet", "--all", "--output=json", "--output-fields="+fields)
	args = append(args, more...)
	if !j.noNamespace {
		args = append(args, "--namespace=*")
	}
	return args
}

// reading returns the arguments for all entries of the units, and journald's records of dropped entries.
func (j *Journal) reading(start string, matches []string) []string {
	return append(append(j.options(outputFields, start), matches...), "+", "MESSAGE_ID="+dropped)
}

// searching returns the arguments for the entries of the units that parsers can use.
func (j *Journal) searching(start string, matches []string) []string {
	args := j.options(outputFields, start)
	if !j.noGrep {
		// Without --case-sensitive, journalctl ignores the case of a pattern in lower case.
		args = append(args, "--case-sensitive=yes", "--grep="+pattern)
	}
	return append(args, matches...)
}

// start returns the option that sets where to begin: the later of the cursor and Position.Alive less the
// margin.
func (j *Journal) start(margin time.Duration) string {
	p, now := j.Position(), j.opts.Now()
	if p.Alive.After(now.Add(time.Minute)) {
		p.Alive = time.Time{} // the clock was wrong then, or is now
	}
	floor := p.Alive.Add(-margin)
	switch hit, ok := cursorTime(p.Cursor); {
	case ok && hit.Equal(p.Hit) && !j.cursorBad && (p.Alive.IsZero() || !hit.Before(floor)):
		return "--after-cursor=" + p.Cursor
	case ok && hit.Equal(p.Hit) && hit.After(floor) && !hit.After(now):
		return since(hit)
	case p.Alive.IsZero():
		return since(now.Add(-firstLook))
	}
	return since(floor)
}

func since(t time.Time) string { return "--since=@" + strconv.FormatInt(t.Unix(), 10) }

// cursorTime returns the realtime of a cursor, and false if it does not have the form of journald's:
//
//	s=SEQNUM-ID;i=SEQNUM;b=BOOT-ID;m=MONOTONIC;t=REALTIME;x=XOR-HASH (all hexadecimal)
//
// journalctl may accept a cursor of another machine or a lost journal and seek by its time, so this must be the time that
// was stored with it.
func cursorTime(cursor string) (time.Time, bool) {
	var t time.Time
	if len(cursor) > 512 {
		return t, false
	}
	for part := range strings.SplitSeq(cursor, ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || len(key) != 1 || value == "" || strings.Trim(value, "0123456789abcdef") != "" {
			return time.Time{}, false
		}
		if key == "t" {
			us, err := strconv.ParseInt(value, 16, 64)
			if err != nil {
				return time.Time{}, false
			}
			t = time.UnixMicro(us)
		}
	}
	return t, !t.IsZero()
}

// errEnough ends a reading before the child ends.
var errEnough = errors.New("enough was read")

const lookupTimeout = 10 * time.Second

// present returns the matches that find an entry from start on, or all of them if that cannot be determined. The 15 units
// that a node does not have would double journalctl's time. Each lookup takes a few milliseconds.
func (j *Journal) present(ctx context.Context, start string) []string {
	left := slices.Clone(j.matches)
	var found []string
	for len(left) > 0 {
		unit, err := j.firstUnit(ctx, start, left)
		at := slices.Index(left, "_SYSTEMD_UNIT="+unit)
		switch {
		case err == nil && len(found) > 0:
			return found
		case at < 0:
			return j.matches // also if no unit has an entry, since no match would find the entries of all units
		}
		found = append(found, left[at])
		left = slices.Delete(left, at, at+1)
	}
	return found
}

// firstUnit returns the unit of the first entry and errEnough, or no error if there is no entry.
func (j *Journal) firstUnit(ctx context.Context, start string, matches []string) (unit string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	err = j.run(ctx, append(j.options("_SYSTEMD_UNIT", start), matches...), func(_ context.Context, line []byte) error {
		e, err := decodeEntry(line)
		if err != nil {
			return err
		}
		unit = e.fields.Unit
		return errEnough
	})
	return unit, err
}
