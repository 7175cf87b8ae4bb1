package source

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// hung is a source that does not end with its context, as one whose read hangs.
type hung struct {
	Source
	release chan struct{}
}

func (hung) Name() string { return "hung" }

func (h hung) Run(context.Context, Position, chan<- parsers.Line) error {
	<-h.release
	return nil
}

// TestHungLog: a log whose read hangs holds up neither the end of a command nor the daemon's.
func TestHungLog(t *testing.T) {
	h := hung{release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	f := Follow(ctx, []Source{h}, nil, quiet(), func(string, bool, time.Time) {})
	cancel()
	f.Wait() // hangs without the bound
	close(h.release)
	f.Wait()
}

// TestRelook: a kubelet that was started again with its standard error in a file is heard, and its
// file followed once.
func TestRelook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	if err := os.WriteFile(path, []byte(orphan(1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := Follow(ctx, nil, nil, quiet(), func(string, bool, time.Time) {})
	tick, files := make(chan time.Time), make(chan []string)
	f.Relook(ctx, tick, func() []string { return <-files })
	tick <- time.Time{}
	files <- nil
	tick <- time.Time{} // the answer has been dealt with
	if all := f.sources(); len(all) > 0 {
		t.Errorf("follows %v before there is a file", all)
	}
	files <- []string{path, path}
	tick <- time.Time{}
	files <- []string{path}
	tick <- time.Time{}
	line := <-f.lines
	if line.Source != path || string(line.Text) != orphan(1) || !line.CatchUp {
		t.Errorf("heard %+v", line)
	}
	if all := f.sources(); len(all) != 1 {
		t.Errorf("follows %v", all)
	}
	cancel()
	files <- nil
	f.Wait()
}
