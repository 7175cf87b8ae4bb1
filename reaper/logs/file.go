package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/nxadm/tail"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// recentBytes is how much of a file is read from its end for a command without a past.
const recentBytes = 4 << 20

// file follows one file by its name.
func (f *Follower) file(ctx context.Context, file File) error {
	if _, err := identify(file.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	from, cut, err := f.begin(file.Path)
	if err != nil {
		return err
	}
	t, err := tail.TailFile(file.Path, tail.Config{
		Location: from, ReOpen: true, Follow: true, CompleteLines: true, MaxLineSize: 0,
		Logger: slog.NewLogLogger(f.cfg.Log.Handler(), slog.LevelDebug),
	})
	if err != nil {
		return fmt.Errorf("cannot follow %s: %w", file.Path, err)
	}
	defer t.Cleanup()
	stop := context.AfterFunc(ctx, func() { t.Kill(nil) })
	defer stop()
	var stream parsers.Stream
	arrival := waits{at: f.cfg.Now(), now: f.cfg.Now}
	if !f.cfg.Recent { // else what is there is read at once, for display
		stream.Begin(arrival.at)
	}
	begun := false
	for line := range arrival.each(t.Lines) {
		if line.Err != nil {
			return fmt.Errorf("cannot read %s: %w", file.Path, line.Err)
		}
		if line.Num == 1 && begun { // after a rotation: rke2 copies a pipe, whose pieces may end within a line
			stream.Begin(arrival.at)
		}
		begun = true
		if cut { // reading began within this line
			cut = false
			continue
		}
		l := parsers.Line{Text: []byte(line.Text), Source: file.Path, Syslog: file.Syslog}
		stream.Next(&l, arrival.at)
		if parsers.Interesting(l.Text) {
			// By the name: a line that was written just before a rotation counts as the new file's, which is the same
			// kubelet's. Credible checks the PID and the time in the line, too.
			id, err := identify(file.Path)
			if err != nil {
				continue
			}
			l.File = &id
		}
		f.send(ctx, file.Path, l)
	}
	return t.Err()
}

// waits is a clock that advances only while the next line is waited for. A line of a message with newlines may be read long
// after the line before it, since the lines before that have filled Lines: such a time is no gap between two messages.
type waits struct {
	at  time.Time
	now func() time.Time
}

// each yields the lines of a channel.
func (w *waits) each(lines <-chan *tail.Line) iter.Seq[*tail.Line] {
	return func(yield func(*tail.Line) bool) {
		for {
			began := w.now()
			line, ok := <-lines
			w.at = w.at.Add(max(0, w.now().Sub(began)))
			if !ok || !yield(line) {
				return
			}
		}
	}
}

// begin returns where to begin to read a file, and whether that may be within a line.
func (f *Follower) begin(path string) (from *tail.SeekInfo, cut bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist): // all of it is new
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !f.cfg.Recent:
		return &tail.SeekInfo{Whence: io.SeekEnd}, false, nil
	case info.Size() <= recentBytes:
		return nil, false, nil
	}
	return &tail.SeekInfo{Offset: -recentBytes, Whence: io.SeekEnd}, true, nil
}
