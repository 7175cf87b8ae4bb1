package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// The values of the setting metrics_file besides a path.
const (
	Auto = "auto" // in the directory of the node exporter, if there is one
	None = "none"
)

// fileName is the file's name in the node exporter's directory.
const fileName = "orphan-reaper.prom"

// textfileDirs are the node exporter's usual directories for its textfile collector: of Debian and Fedora, then of its own
// examples, roles and charts.
var textfileDirs = []string{
	"/var/lib/prometheus/node-exporter",
	"/var/lib/node_exporter/textfile_collector",
	"/var/lib/node-exporter/textfile_collector",
	"/var/lib/prometheus/node_exporter",
	"/var/lib/node_exporter/textfile",
	"/var/lib/node_exporter",
	"/var/lib/node-exporter",
}

// fileTimeout is how long one write of the file may take.
const fileTimeout = 5 * time.Second

// Textfile writes metrics for the node exporter's textfile collector.
//
// The file is replaced by one rename: a reader sees the old file or the new one. It does not use
// prometheus.WriteToTextfile, which changes the mode by the temporary file's path. If the node exporter's user owns the
// directory, that user could place a symbolic link there and have root open any file to all. Here the mode is set on the
// open file, every name is opened from the directory's handle, and rename follows no link. The file is not synced, since it
// is useless after a crash of the machine.
//
// Run has a goroutine of its own, and each write another one with a time limit: a file system that hangs or is full stops
// no pass.
type Textfile struct {
	from    prometheus.Gatherer
	log     *slog.Logger
	path    string // "" if dirs is searched, or nothing is written
	dirs    []string
	changed chan struct{}
	timeout time.Duration
	replace func(path string, content []byte) error

	guard   bounded.Guard
	written string // the path of the last write
	logged  string // the last message
}

// NewTextfile returns the file of the setting metrics_file: a path, None, or Auto, which may be empty.
func NewTextfile(setting string, from prometheus.Gatherer, log *slog.Logger) *Textfile {
	f := &Textfile{from: from, log: log, changed: make(chan struct{}, 1), timeout: fileTimeout, replace: replace}
	switch setting {
	case None:
	case Auto, "":
		f.dirs = textfileDirs
	default:
		f.path = setting
	}
	return f
}

// Changed asks for a write. It does not block: Metrics.Changed.
func (f *Textfile) Changed() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run writes the file after each change, until ctx ends. Then it removes the file, since values that are no longer updated
// mislead. After a crash the file is left, and orphan_reaper_last_scan_timestamp_seconds in it shows its age.
func (f *Textfile) Run(ctx context.Context) {
	steps := context.WithoutCancel(ctx) // a write is finished before the file is removed
	for {
		select {
		case <-ctx.Done():
			if path := f.written; path != "" {
				f.within(steps, func() (string, error) { return "", remove(path) })
			}
			return
		case <-f.changed:
			f.update(steps)
		}
	}
}

// update writes the file, and logs where if that has changed.
func (f *Textfile) update(ctx context.Context) {
	path, ok := f.within(ctx, f.write)
	switch {
	case !ok:
	case path != "":
		f.written = path
		if f.news("to " + path) {
			f.log.InfoContext(ctx, "metrics are written", slog.String("path", path))
		}
	case f.dirs != nil && f.news("nowhere"):
		f.log.InfoContext(ctx, "no metrics are written, since there is no directory of a node exporter; metrics_file names one")
	}
}

// within does one step, and waits for it no longer than the timeout. It returns false if the step failed or has not ended.
// While one hangs, no other begins. A step shares nothing that changes with its caller.
func (f *Textfile) within(ctx context.Context, step func() (path string, err error)) (path string, ok bool) {
	type result struct {
		path string
		err  error
	}
	r, hangs := bounded.Within(ctx, &f.guard, "", f.timeout, func() result {
		path, err := step()
		return result{path, err}
	})
	switch {
	case hangs != nil:
		if f.news("hangs") {
			f.log.ErrorContext(ctx, "the metrics file's file system does not answer; the file is written again after a later scan")
		}
	case r.err != nil:
		if f.news(r.err.Error()) {
			f.log.ErrorContext(ctx, "cannot write the metrics file, or remove it at the end", slog.Any("error", r.err))
		}
	default:
		return r.path, true
	}
	return "", false
}

// news reports whether a message differs from the last one: each is logged once.
func (f *Textfile) news(message string) bool {
	before := f.logged
	f.logged = message
	return before != message
}

// write replaces the file. It returns "" if there is no directory for it.
func (f *Textfile) write() (path string, err error) {
	path = f.path
	for i := 0; path == "" && i < len(f.dirs); i++ { // at each write: a node exporter may be installed later
		if st, err := os.Stat(f.dirs[i]); err == nil && st.IsDir() {
			path = filepath.Join(f.dirs[i], fileName)
		}
	}
	if path == "" {
		return "", nil
	}
	families, err := f.from.Gather()
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", err
		}
	}
	return path, f.replace(path, text.Bytes())
}

// replace replaces the content of a file by one rename. After an error the old file is kept.
func replace(path string, text []byte) error {
	name := filepath.Base(path)
	if !strings.HasSuffix(name, ".prom") {
		return fmt.Errorf("%s: the node exporter reads only names that end in .prom", path)
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	// A fixed name, so that killed processes leave one file at most. The node exporter does not read it.
	tmp := "." + name + ".tmp"
	if err := removeIn(dir, tmp); err != nil {
		return err
	}
	if err = create(dir, tmp, text); err == nil {
		err = dir.Rename(tmp, name)
	}
	if err != nil {
		err = errors.Join(err, removeIn(dir, tmp))
	}
	return err
}

func create(dir *os.Root, name string, text []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644) // despite the umask: the node exporter is another user
	}
	return errors.Join(err, f.Close())
}

func remove(path string) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeIn(dir, filepath.Base(path))
}

func removeIn(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
