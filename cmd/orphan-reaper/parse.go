package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/nxadm/tail"
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

func newParseCommand(a *cli) *cobra.Command {
	var hints, follow bool
	cmd := &cobra.Command{
		Use:   "parse [FILE...]",
		Short: "Show the orphans that log lines name; touches nothing",
		Long: `Read log lines (stdin by default) and write one JSON object for each line in
which a kubelet reports an orphaned pod. The lines may be klog's text or JSON,
syslog's, container logs, or those of journalctl -o short and its variants,
with-unit, cat and json, where MESSAGE is one string or a list of bytes. You can
give it logs that gzip has compressed. With -o text it writes lines for people,
and no JSON.

With --follow the command reads one file as it grows, until you interrupt it. If
the file is replaced, the command continues with the new one.`,
		Example: `  orphan-reaper parse /var/log/syslog
  journalctl -u kubelet -o json | orphan-reaper parse | jq -r .uid | sort -u
  orphan-reaper parse --follow -o text /var/log/syslog`,
		Annotations: map[string]string{noSettings: "yes", usesFlag: "journal-unit"},
		RunE: func(cmd *cobra.Command, args []string) error {
			text := cmd.Flags().Changed("output") && !a.json()
			o := parsers.Parser{Units: a.given["journal-unit"], Hints: hints}
			if !follow {
				return a.parse(cmd, args, o, text)
			}
			if len(args) != 1 || args[0] == "-" {
				return exit.Usagef("a pipe is read as it comes: journalctl -f | orphan-reaper parse", "--follow reads one file")
			}
			log, err := followFile(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			a.stdin = log
			return a.parse(cmd, nil, o, text)
		},
	}
	cmd.Flags().BoolVar(&hints, "hints", false, "also show errors of volume tear-down, with the reason \"teardown\"")
	cmd.Flags().BoolVar(&follow, "follow", false, "read one file as it grows")
	return cmd
}

// parse reads each file in turn. One that cannot be read does not stop the others.
func (a *cli) parse(cmd *cobra.Command, files []string, o parsers.Parser, text bool) error {
	p := a.printer(a.stdout)
	emit := func(v ui.Sighting) error { return p.JSONLine(v) }
	if text {
		emit = func(v ui.Sighting) error { _, err := io.WriteString(p, v.Text()); return err }
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	var errs []error
	for _, name := range files {
		label := ""
		if len(files) > 1 {
			label = name
		}
		err := a.parseFile(name, p, o, func(s parsers.Sighting, line int) error {
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return emit(ui.NewSighting(s, line, label))
		})
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if err := p.Flush(); err != nil && !errors.Is(errors.Join(errs...), err) { // the same may have ended the reading
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// promptly flushes the output before each read, since a read may wait, as in journalctl -f | orphan-reaper parse.
type promptly struct {
	in  io.Reader
	out *ui.Printer
}

// Read flushes and reads. The next write returns the error of a failed one.
func (r promptly) Read(b []byte) (int, error) {
	_ = r.out.Flush()
	return r.in.Read(b)
}

// parseFile reads one input, "-" being stdin.
func (a *cli) parseFile(name string, p *ui.Printer, o parsers.Parser, emit func(parsers.Sighting, int) error) error {
	if name == "-" {
		return parseLines(promptly{a.stdin, p}, "stdin", o, emit)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("cannot read: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("cannot read: %s is a directory", name)
	}
	return parseLines(promptly{f, p}, name, o, emit)
}

// unreadable has the first bytes of files in other formats, with the program that prints them as text. Reading them
// as text would find nothing, which would be wrong.
var unreadable = []struct{ magic, what, program string }{
	{"\xfd7zXZ\x00", "compressed by xz", "xzcat"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat"},
	{"BZh", "compressed by bzip2", "bzcat"},
	{"LPKSHHRH", "a file of the journal", "journalctl --file"},
	{"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"{\n", "JSON with one object on several lines", "jq -c ."},
	{"[\n", "a JSON array", "jq -c '.[]'"},
	{"[{", "a JSON array", "jq -c '.[]'"},
}

// plainText returns r, decompressed if it begins like gzip.
func plainText(r io.Reader, source string) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(len("LPKSHHRH"))
	if err != nil && len(head) == 0 {
		return r, nil // the scanner meets the same end or error
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("cannot decompress %s: %w", source, err)
		}
		return z, nil
	}
	head = bytes.Replace(head, []byte("\r\n"), []byte("\n"), 1)
	for _, u := range unreadable {
		if bytes.HasPrefix(head, []byte(u.magic)) {
			return nil, fmt.Errorf("cannot read %s, which is %s; use %s FILE | orphan-reaper parse", source, u.what, u.program)
		}
	}
	return b, nil
}

// parseLines calls emit with the sightings of one log. Lines have any length; memory is bounded.
func parseLines(r io.Reader, source string, o parsers.Parser, emit func(parsers.Sighting, int) error) error {
	r, err := plainText(r, source)
	if err != nil {
		return err
	}
	for found, err := range parsers.Scan(r, o) {
		if err != nil {
			return fmt.Errorf("cannot read on after byte %d of %s: %w", found.Offset, source, err)
		}
		if err := emit(found.Sighting, found.Line); err != nil {
			return err
		}
	}
	return nil
}

// followFile follows the named file from its beginning until ctx ends, and after a rotation the new file.
//
// It polls, because the inotify watcher of nxadm/tail may end the process (see reaper/source).
func followFile(ctx context.Context, name string) (io.Reader, error) {
	f, err := follow(name)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	context.AfterFunc(ctx, func() { _ = out.Close() }) // it returns no error
	go func() { _ = out.CloseWithError(f.copy(ctx, out)) }()
	return in, nil
}

// followed is a file that is followed by its name. nxadm/tail begins to watch the name after it has read the file to its end: of a
// rotation in between it learns nothing, and stays with the old file; of a later one it may learn before it has read the old file's
// last lines. So the name is compared here, and what is left of the old file is read here.
type followed struct {
	name   string
	tail   *tail.Tail
	file   *os.File // the same file
	offset int64    // of what was copied
}

// errNoFile is the error of a name that is no regular file's.
var errNoFile = errors.New("is not a file")

func follow(name string) (*followed, error) {
	for {
		if at, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("cannot follow: %w", err)
		} else if !at.Mode().IsRegular() {
			return nil, fmt.Errorf("cannot follow: %s %w", name, errNoFile)
		}
		file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have come
		if err != nil {
			return nil, fmt.Errorf("cannot follow: %w", err)
		}
		t, err := tail.TailFile(name, tail.Config{Follow: true, MustExist: true, Poll: true, CompleteLines: true, Logger: tail.DiscardingLogger})
		if err != nil {
			_ = file.Close() // it was only opened
			return nil, fmt.Errorf("cannot follow: %w", err)
		}
		f := &followed{name: name, tail: t, file: file}
		if !f.replaced() {
			return f, nil
		}
		f.stop() // another file may have been opened
	}
}

func (f *followed) stop() {
	_ = f.tail.Stop()
	_ = f.file.Close() // read only
}

// replaced reports whether the name is another file's.
func (f *followed) replaced() bool {
	own, errOwn := f.file.Stat()
	now, err := os.Stat(f.name)
	return errOwn == nil && err == nil && !os.SameFile(now, own)
}

// rest copies what nxadm/tail has not read of the file, also a last line without an end.
func (f *followed) rest(out io.Writer) error {
	if info, err := f.file.Stat(); err == nil && info.Size() < f.offset {
		f.offset = 0 // it was truncated after nxadm/tail has read it
	}
	if _, err := f.file.Seek(f.offset, io.SeekStart); err != nil {
		return fmt.Errorf("cannot read on: %w", err)
	}
	n, err := io.Copy(out, f.file)
	if err != nil || n == 0 {
		return err
	}
	end := make([]byte, 1)
	if _, err = f.file.ReadAt(end, f.offset+n-1); err == nil && end[0] != '\n' {
		_, err = io.WriteString(out, "\n")
	}
	return err
}

// copy writes the lines until ctx or the reader ends. It continues with the new file once the old one has had no line
// for a poll.
func (f *followed) copy(ctx context.Context, out io.Writer) error {
	defer func() { f.stop() }()
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	lines, last, quiet := f.tail.Lines, 0, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				if err := f.tail.Wait(); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("cannot follow: %w", err)
				}
				lines = nil // it was removed; another may come
				continue
			}
			if line.Num <= last { // it was truncated, and opened again
				f.reopened()
			}
			last, quiet = line.Num, false
			f.offset += int64(len(line.Text)) + 1
			if _, err := io.WriteString(out, line.Text+"\n"); err != nil {
				return nil // the reader is gone
			}
		case <-poll.C:
			if quiet && (lines == nil || f.replaced()) {
				next, err := follow(f.name)
				if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoFile) {
					return err
				}
				if err == nil {
					err = f.rest(out)
					f.stop()
					*f, lines, last = *next, next.tail.Lines, 0
				}
				if errors.Is(err, io.ErrClosedPipe) {
					return nil // the reader is gone
				}
			}
			quiet = true
		}
	}
}

// reopened takes over the file that nxadm/tail has opened again after a truncation.
func (f *followed) reopened() {
	if file, err := os.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = f.file.Close() // read only
		f.file = file
	}
	f.offset = 0
}
