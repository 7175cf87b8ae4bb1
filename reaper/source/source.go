package source

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// maxText bounds the text of a line that is sent; the rest of it is skipped. The
// longest report of a kubelet is a few KiB.
const maxText = 64 << 10

// Source is one log that is followed.
type Source interface {
	// Name is where the lines come from: "journald", or the file's path.
	Name() string
	// Run sends lines until ctx ends, and then returns nil. It returns an error only
	// where trying again cannot help. lines must be unbuffered. Run is called once.
	Run(ctx context.Context, from Position, lines chan<- parsers.Line) error
	// Position is where a later Run continues. It covers no line that has not been received.
	Position() Position
	// State returns the state of the reading. Both may be called at any time, from any goroutine.
	State() State
}

// State is the state of reading a log, for messages.
type State struct {
	// Reached is true once all that was there at the start has been read.
	Reached bool
	// Err is the error that is in the way now, nil where there is none.
	Err error
}

// Position is where a source continues: the content of a checkpoint. The zero value is a first start. A
// Position of another kind of source counts as the zero value.
type Position struct {
	// Cursor is journald's cursor of the last line received, and Hit that line's time.
	Cursor string    `json:"cursor,omitempty"`
	Hit    time.Time `json:"hit,omitzero"`
	// Alive is the wall clock when catching up reached the end last: the units may have had no
	// entry, and Cursor be weeks old.
	Alive time.Time `json:"alive,omitzero"`
	// Files has the file that has the log's name, or had it last. Earlier versions put rotated
	// files before it.
	Files []FilePosition `json:"files,omitempty"`
}

// ErrBuffered is returned by Run for a channel with a buffer: a line that waits in it
// would count as received, and be lost in a crash.
var ErrBuffered = errors.New("cannot follow a log into a buffered channel")

// errBadPath is for a name that no file can have.
var errBadPath = errors.New("cannot follow a log without a proper name")

// errClass is how an error is handled.
type errClass int

const (
	classRetry    errClass = iota // try again later
	classShutdown                 // ctx has ended: no error
	classHopeless                 // no retry can mend it
)

// classify decides which errors end a source. What can be mended while the daemon runs is retried: missing files,
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
