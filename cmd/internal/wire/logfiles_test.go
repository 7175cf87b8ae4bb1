package wire

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

// orphanLine is what a kubelet says of an orphan.
const orphanLine = `E0331 15:47:45.892216    3416 kubelet_volumes.go:140] Orphaned pod "0badf00d-6131-4aaa-8bbb-cccc00006131" found, but volume ` +
	`paths are still present on disk`

// TestLogFiles: with auto, RKE2's kubelet is heard, which the journal never hears, and
// nothing is followed that nobody has.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	here, nowhere := filepath.Join(dir, "agent", "logs", "kubelet.log"), filepath.Join(dir, "none", "logs", "kubelet.log")
	if err := os.Mkdir(filepath.Join(dir, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	usual := []string{"/var/log/messages", "/var/log/syslog"}
	for _, c := range []struct {
		name     string
		sources  []string
		files    []string
		journald bool
		rke2     string
		want     []string
	}{
		{"a kubelet in the journal", []string{config.Auto}, usual, true, nowhere, nil},
		{"RKE2 with a journal", []string{config.Auto}, usual, true, here, []string{here}},
		{"RKE2 without", []string{config.Auto}, usual, false, here, append(slices.Clone(usual), here)},
		{"no journal", []string{config.Auto}, usual, false, nowhere, usual},
		{"named once", []string{config.Auto}, []string{here}, false, here, []string{here}},
		{"the journal only", []string{"journald"}, usual, true, here, nil},
		{"files only", []string{"file"}, usual, true, here, usual},
	} {
		if got := logFiles(config.Config{LogSources: c.sources, LogFiles: c.files}, c.journald, c.rke2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOwnLog: the file that is the kubelet's standard error is followed once, beside the journal.
func TestOwnLog(t *testing.T) {
	cfg := config.Config{LogSources: []string{config.Auto}, LogFiles: []string{"/var/log/messages"}}
	for _, c := range []struct {
		journald bool
		want     []string
	}{{true, []string{"/var/log/kubelet.log"}}, {false, []string{"/var/log/messages", "/var/log/kubelet.log"}}} {
		got := logFiles(cfg, c.journald, "/none/logs/kubelet.log", "/var/log/kubelet.log", "/var/log/kubelet.log")
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// hung is a source that does not end with its context, as one whose read hangs.
type hung struct {
	source.Source
	release chan struct{}
}

func (hung) Name() string { return "hung" }

func (h hung) Run(context.Context, source.Position, chan<- parsers.Line) error {
	<-h.release
	return nil
}

// TestHungLog: a log whose read hangs holds up neither the end of a command nor the daemon's.
func TestHungLog(t *testing.T) {
	h := hung{release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, []source.Source{h}, nil, slog.New(slog.DiscardHandler), func(string, bool, time.Time) {})
	cancel()
	f.wait() // hangs without the bound
	close(h.release)
	f.wait()
}

// TestRelook: a kubelet that was started again with its standard error in a file is heard, and its
// file followed once.
func TestRelook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	if err := os.WriteFile(path, []byte(orphanLine+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, nil, nil, slog.New(slog.DiscardHandler), func(string, bool, time.Time) {})
	tick, files := make(chan time.Time), make(chan []string)
	f.relook(ctx, tick, func() []string { return <-files })
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
	if line.Source != path || string(line.Text) != orphanLine || !line.CatchUp {
		t.Errorf("heard %+v", line)
	}
	if all := f.sources(); len(all) != 1 {
		t.Errorf("follows %v", all)
	}
	cancel()
	files <- nil
	f.wait()
}

// TestUnitsFound: a unit in which a kubelet was found is believed and kept in mind; where
// the operator named units, nothing is looked for and any command of theirs is believed.
func TestUnitsFound(t *testing.T) {
	line := func(unit, comm string) parsers.Line {
		return parsers.Line{Text: []byte(orphanLine), Source: "journald", Journal: &parsers.JournalFields{Unit: unit, Comm: comm, UID: "0"}}
	}
	named, err := config.Load(t.Context(), config.Input{Usual: os.DevNull, Given: map[string][]string{"journal-unit": {"node.service"}}})
	if err != nil {
		t.Fatal(err)
	}
	usual := config.Config{}
	found := newUnitsFound(usual, slog.New(slog.DiscardHandler))
	units := []string{"k3s-shop.service", "kubelet.service"}
	found.find = func(context.Context) []string { return units }
	parse := newParse(usual, found)
	if _, ok := parse(line("k3s-shop.service", "k3s-server")); ok {
		t.Error("believed before it was found")
	}
	for range 2 {
		if got := found.look(t.Context()); !slices.Equal(got, []string{"k3s-shop.service"}) {
			t.Errorf("found %q", got)
		}
		units = nil
	}
	for unit, comm := range map[string]string{"k3s-shop.service": "k3s-server", "kubelet.service": "kubelet"} {
		if _, ok := parse(line(unit, comm)); !ok {
			t.Errorf("%s is not believed", unit)
		}
		if _, ok := parse(line(unit, "logger")); ok {
			t.Errorf("logger in %s is believed", unit)
		}
	}
	byHand := newUnitsFound(named, slog.New(slog.DiscardHandler))
	if byHand.find != nil || byHand.look(t.Context()) != nil {
		t.Error("looks for units beside those that were named")
	}
	if _, ok := newParse(named, byHand)(line("node.service", "anything")); !ok {
		t.Error("a unit that was named is not believed")
	}
}
