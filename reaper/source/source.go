package source

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// maxText bounds the text of a line; the rest is skipped. The longest report of a kubelet has a few KiB.
const maxText = 64 << 10

// Source is one log that is followed.
type Source interface {
	// Name returns "journald" or the file's path.
	Name() string
	// Run sends lines until ctx ends, and then returns nil. It returns an error only
	// if no retry can help. lines must be unbuffered. Run is called once.
	Run(ctx context.Context, from Position, lines chan<- parsers.Line) error
	// Position returns where a later Run continues. It may be called by any goroutine, like State.
	Position() Position
	// State returns the state of the reading.
	State() State
}

// State is the state of reading a log, for messages.
type State struct {
	// Reached reports that the lines from before the start have been read.
	Reached bool
	// Err is the present error, if any.
	Err error
}

// Position is where a source continues, as a checkpoint stores it. The zero value is a first start. The Position of
// another kind of source counts as the zero value.
type Position struct {
	// Cursor is journald's cursor of the last line received, and Hit the time of that line.
	Cursor string    `json:"cursor,omitempty"`
	Hit    time.Time `json:"hit,omitzero"`
	// Alive is the last time at which the journal was read to its end. Cursor may be weeks older, if the units had
	// no entry.
	Alive time.Time `json:"alive,omitzero"`
	// Files has the open file, or the last one.
	Files []FilePosition `json:"files,omitempty"`
}

// ErrBuffered is Run's error for a channel with a buffer: a line in the buffer would count as received,
// and be lost in a crash.
var ErrBuffered = errors.New("cannot follow a log into a buffered channel")

var errBadPath = errors.New("cannot follow a log without a proper name")

// errClass is how an error is handled.
type errClass int

const (
	classRetry    errClass = iota // try again later
	classShutdown                 // ctx has ended: no error
	classHopeless                 // no retry can help
)

// classify decides which errors end a source. Errors that can be fixed while the daemon runs are retried: missing files,
// permissions, I/O errors, exhausted descriptors.
func classify(ctx context.Context, err error) errClass {
	switch {
	case ctx.Err() != nil:
		return classShutdown
	case errors.Is(err, ErrBuffered),
		errors.Is(err, errBadPath),
		errors.Is(err, exec.ErrNotFound): // there is no such program here
		return classHopeless
	}
	if e, ok := errors.AsType[*exec.Error](err); ok && errors.Is(e, fs.ErrPermission) {
		return classHopeless
	}
	return classRetry
}

// send sends a line, or returns ctx's error.
func send(ctx context.Context, lines chan<- parsers.Line, l parsers.Line) error {
	select {
	case lines <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits for d, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
