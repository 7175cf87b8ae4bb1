package source

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// maxText bounds the text of a line that is handed over; the rest of it is skipped. The
// longest report of a kubelet is a few KiB.
const maxText = 64 << 10

// Source is one log that is followed.
type Source interface {
	// Name says where the lines come from: "journald", or the file's path.
	Name() string
	// Run hands lines over until ctx ends, and then returns nil. It returns an error only
	// where trying again cannot help. lines must be unbuffered. Run is called once.
	Run(ctx context.Context, from Position, lines chan<- parsers.Line) error
	// Position is where a later Run goes on. It covers no line that has not been received.
	// It may be called at any time, from any goroutine.
	Position() Position
}

// ErrBuffered is returned by Run for a channel with a buffer: a line that waits in it
// would count as received, and be lost in a crash.
var ErrBuffered = errors.New("cannot follow a log into a buffered channel")

// errBadPath is for a name that no file can have.
var errBadPath = errors.New("cannot follow a log without a proper name")

// errClass says what is to be done about an error.
type errClass int

const (
	classRetry    errClass = iota // try again later
	classShutdown                 // ctx has ended: no error
	classHopeless                 // no retry can mend it
)

// classify is the one place that says which errors end a source. Whatever an
// administrator can mend while the daemon runs is retried: missing files and directories,
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

// send hands a line over, or returns ctx's error.
func send(ctx context.Context, lines chan<- parsers.Line, l parsers.Line) error {
	select {
	case lines <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits, and reports whether ctx lives on.
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
