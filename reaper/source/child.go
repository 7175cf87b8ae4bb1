package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// maxEntry bounds one line of the child's output. A MESSAGE that journalctl prints as
	// numbers takes up to five bytes a byte.
	maxEntry = 1 << 20
	// maxSaid bounds what is kept and logged of its stderr.
	maxSaid = 4 << 10
	// straggle is how long output may come after the child has ended.
	straggle = 2 * time.Second
)

// childError is how a child ended.
type childError struct {
	status int // exit status, -1 where a signal ended it
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

// child runs journalctl with args, hands its lines over, and returns when it has ended
// and all it said has been read. every says that no entry of the units is left out.
func (j *Journal) child(ctx context.Context, args []string, every bool, lines chan<- parsers.Line) error {
	clear(j.streams)
	clear(j.asked)
	j.lookups = 0
	return j.run(ctx, args, func(ctx context.Context, out io.Reader) error { return j.read(ctx, out, every, lines) })
}

// run runs journalctl and returns when it has ended and all it said has been read.
func (j *Journal) run(ctx context.Context, args []string, read func(context.Context, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer func() { _ = out.Close() }() // Only read.
	said, saidW, err := os.Pipe()
	if err != nil {
		_ = outW.Close() // Nothing was written to it.
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	cmd := exec.CommandContext(ctx, j.opts.Program, args...)
	cmd.Stdout, cmd.Stderr = outW, saidW
	// Nothing of our environment: a pager, colours or another language would change the output.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Chroot: j.opts.Root}
	if j.opts.Root != "" {
		cmd.Dir = "/" // chroot(2) leaves the working directory outside
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

	ended := make(chan error, 1)
	go func() { ended <- runLocked(cmd, outW, saidW, out, said) }()
	words := make(chan string, 1)
	go func() { words <- j.listen(ctx, said) }()

	readErr := read(ctx, out)
	if readErr != nil {
		cancel()
	}
	waitErr := <-ended
	stderr := <-words
	switch exit, ok := errors.AsType[*exec.ExitError](waitErr); {
	case readErr != nil:
		return readErr
	case ok:
		return &childError{status: exit.ExitCode(), stderr: stderr, err: waitErr}
	case waitErr != nil:
		return fmt.Errorf("cannot run %s%s: %w", j.opts.Root, j.opts.Program, waitErr)
	}
	return nil
}

// runLocked runs the command from an operating system thread that lives as long as the
// command does: PR_SET_PDEATHSIG fires when the thread that forked ends (prctl(2)), and
// Go ends a thread whose goroutine returns while it is locked to it, as the removal's does. The write ends are closed here
// once the child has its own; a grandchild that keeps one open is cut off.
func runLocked(cmd *exec.Cmd, outW, saidW, out, said *os.File) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	_ = outW.Close() // The child has its own by now,
	_ = saidW.Close()
	if err != nil {
		return err
	}
	err = cmd.Wait()
	time.AfterFunc(straggle, func() {
		_ = out.Close() // and whoever still has one is not waited for.
		_ = said.Close()
	})
	return err
}

// listen reads what the child says on stderr, logs it, and returns the beginning.
func (j *Journal) listen(ctx context.Context, said io.ReadCloser) string {
	defer func() { _ = said.Close() }() // Only read.
	var kept strings.Builder
	r := newLineReader(said, maxSaid)
	for {
		line, err := r.next()
		if err != nil {
			return strings.TrimSpace(kept.String())
		}
		if text := string(bytes.ToValidUTF8(line, []byte("?"))); kept.Len()+len(text) < maxSaid {
			kept.WriteString(text + "\n")
			j.opts.Logger.DebugContext(ctx, "a message of journalctl", slog.String("stderr", text))
		}
	}
}

// read hands over the entries that the child prints, one a line.
func (j *Journal) read(ctx context.Context, out io.Reader, every bool, lines chan<- parsers.Line) error {
	defer j.setIdle(false)
	r := newLineReader(&idleReader{r: out, set: j.setIdle}, maxEntry)
	bad := 0
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read from journalctl: %w", err)
		}
		if !every && j.noGrep && !parsers.Interesting(line) {
			continue
		}
		e, err := decodeEntry(line)
		if err != nil {
			if bad++; bad == 1 {
				j.opts.Logger.WarnContext(ctx, "cannot decode a line of journalctl", slog.Any("error", err))
			}
			continue
		}
		if err := j.deliver(ctx, e, every, lines); err != nil {
			return err
		}
	}
}

// deliver hands over one entry and then moves the position past it.
func (j *Journal) deliver(ctx context.Context, e entry, every bool, lines chan<- parsers.Line) error {
	j.mu.Lock()
	seen := e.cursor != "" && e.cursor == j.pos.Cursor
	j.mu.Unlock()
	if seen && !every {
		return nil
	}
	for i, m := range e.messages {
		e.messages[i] = m[:min(len(m), maxText)]
	}
	e.fields.Whole = j.whole(ctx, &e, every)
	if seen {
		return nil
	}
	if e.interesting() {
		j.hits++
	}
	for _, m := range e.messages {
		if !parsers.Interesting(m) {
			continue
		}
		fields := e.fields
		l := parsers.Line{Text: m, Source: j.Name(), Journal: &fields, CatchUp: !j.caughtUp || fields.Time.Before(j.started)}
		if err := send(ctx, lines, l); err != nil {
			return err
		}
	}
	_, ok := cursorTime(e.cursor)
	if !ok || !j.certain.IsZero() && e.fields.Time.After(j.certain) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pos.Cursor, j.pos.Hit = e.cursor, e.fields.Time
	j.cursorBad = false
	if j.following && !every && j.hits > fewHits {
		return errBusy
	}
	return nil
}

// interesting reports whether the entry may be a sighting.
func (e *entry) interesting() bool { return slices.ContainsFunc(e.messages, parsers.Interesting) }

// setIdle notes that all there is has been received, or no longer is.
func (j *Journal) setIdle(idle bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.following {
		return
	}
	if j.idle && !idle {
		j.pos.Alive = j.opts.Now()
	}
	j.idle = idle
}

// idleReader says when its reader waits for more.
type idleReader struct {
	r   io.Reader
	set func(bool)
}

func (r *idleReader) Read(p []byte) (int, error) {
	r.set(true)
	defer r.set(false)
	return r.r.Read(p)
}

// lineReader reads lines of bounded length; the rest of a longer one is skipped.
type lineReader struct {
	r    *bufio.Reader
	max  int
	line []byte
}

func newLineReader(r io.Reader, longest int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: longest}
}

// next returns the next line without its newline; it is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.line = append(l.line, part[:min(len(part), l.max-len(l.line))]...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(l.line, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.line) > 0:
			return l.line, nil
		default:
			return nil, err
		}
	}
}
