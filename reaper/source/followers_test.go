package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hung is a source whose Run does not end with its context, as if a read hangs.
type hung struct {
	Source
	release chan struct{}
}

func (hung) Name() string { return "hung" }

func (h hung) Run(context.Context, Position, chan<- parsers.Line) error {
	<-h.release
	return nil
}

// TestHungLog checks that a log whose read hangs delays neither the end of a command nor that of the daemon.
func TestHungLog(t *testing.T) {
	h := hung{release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	f := Follow(ctx, []Source{h}, nil, quiet(), func(string, bool, time.Time) {})
	cancel()
	f.Wait() // hangs without the bound
	close(h.release)
	f.Wait()
}

// TestRelook checks that the log of a kubelet that has restarted with its standard error in a file is followed, once.
func TestRelook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	testkit.Must(t, os.WriteFile(path, []byte(orphan(1)+"\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	f := Follow(ctx, nil, nil, quiet(), func(string, bool, time.Time) {})
	tick, files := make(chan time.Time), make(chan []string)
	f.Relook(ctx, tick, time.Now, func() []string { return <-files })
	tick <- time.Time{}
	files <- nil
	tick <- time.Time{} // the result has been processed
	if all := f.sources(); len(all) > 0 {
		t.Errorf("follows %v before the file exists", all)
	}
	files <- []string{path, path}
	tick <- time.Time{}
	files <- []string{path}
	tick <- time.Time{}
	line := <-f.lines
	if line.Source != path || string(line.Text) != orphan(1) || !line.CatchUp {
		t.Errorf("received %+v", line)
	}
	if all := f.sources(); len(all) != 1 {
		t.Errorf("follows %v", all)
	}
	cancel()
	files <- nil
	f.Wait()
}

// TestStates checks that each log's state has whether it was read to its end, and its error.
func TestStates(t *testing.T) {
	dir := t.TempDir()
	good, none, odd := filepath.Join(dir, "messages"), filepath.Join(dir, "syslog"), filepath.Join(dir, "directory")
	testkit.Must(t, os.WriteFile(good, []byte(orphan(1)+"\n"), 0o600))
	testkit.Must(t, os.Mkdir(odd, 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	var all []Source
	for _, path := range []string{good, none, odd} {
		all = append(all, newFile(path))
	}
	all = append(all, NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Journalctl: Journalctl{Program: filepath.Join(dir, "no-journalctl")}}))
	f := Follow(ctx, all, nil, quiet(), func(string, bool, time.Time) {})
	defer f.Wait()
	defer cancel()
	if l := <-f.Lines(); string(l.Text) != orphan(1) {
		t.Fatalf("%q", l.Text)
	}
	settled := func(s map[string]State) bool {
		return s[good].Reached && errors.Is(s[none].Err, fs.ErrNotExist) && errors.Is(s[odd].Err, errNotRegular) && s["journald"].Err != nil
	}
	for end := time.Now().Add(patience); !settled(f.States()) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	s := f.States()
	if len(s) != 4 || !settled(s) || s[good].Err != nil || s[none].Reached || s[odd].Reached || s["journald"].Reached {
		t.Errorf("%+v", s)
	}
}

// TestUnits checks that a unit that was found is kept, and that it is not one of the default units.
func TestUnits(t *testing.T) {
	found := []string{"k3s-shop.service", "kubelet.service"}
	u := NewUnits(func(context.Context) []string { return found }, quiet())
	for range 2 {
		if got := u.Find(t.Context()); !slices.Equal(got, []string{"k3s-shop.service"}) {
			t.Errorf("found %q", got)
		}
		found = nil
	}
	if !u.RunsKubelet("k3s-shop.service") || u.RunsKubelet("kubelet.service") {
		t.Error("the unit that was found is missing")
	}
	if got := NewUnits(nil, quiet()).Find(t.Context()); got != nil {
		t.Errorf("found %q without a kubelet", got)
	}
}
