package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nxadm/tail"
)

// followed reads a log that is being written: at its end it waits for more, and it goes on in
// the file that takes the name when the log is rotated.
//
// It polls, since the other watcher of nxadm/tail may end the process while it follows
// (reaper/source shows it). A line may be lost at a rotation, which costs a person nothing here;
// the daemon has a follower of its own.
type followed struct {
	ctx  context.Context //nolint:containedctx // io.Reader's Read has none
	tail *tail.Tail
	rest []byte
}

// followFile follows the named file from its beginning until ctx ends.
func followFile(ctx context.Context, name string) (*followed, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("cannot follow: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot follow: %s is not a file", name)
	}
	t, err := tail.TailFile(name, tail.Config{
		Follow: true, ReOpen: true, MustExist: true, Poll: true, CompleteLines: true, Logger: tail.DiscardingLogger,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot follow: %w", err)
	}
	return &followed{ctx: ctx, tail: t}, nil
}

// Read returns what is left of a line, or waits for the next one.
func (f *followed) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case line, ok := <-f.tail.Lines:
			if !ok {
				if err := f.tail.Err(); err != nil {
					return 0, err
				}
				return 0, io.EOF
			}
			f.rest = append([]byte(line.Text), '\n')
		}
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
