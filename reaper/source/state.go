package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// State is how the reading of a log goes, for people.
type State struct {
	// Reached is true once all that was there at the start has been read.
	Reached bool
	// Err is what was in the way last, nil where nothing is.
	Err error
}

// Stater is a source that tells its state.
type Stater interface{ State() State }

// State implements Stater.
func (f *File) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

func (f *File) setState(more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = State{Reached: f.state.Reached || !more && err == nil, Err: err}
}

// State implements Stater.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return State{Reached: !j.pos.Alive.IsZero(), Err: j.failed}
}

func (j *Journal) setFailed(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = err
}

// States returns the state of each source that tells one, by name.
func (f *Followers) States() map[string]State {
	at := map[string]State{}
	for _, s := range f.sources() {
		if s, ok := s.(interface {
			Source
			Stater
		}); ok {
			at[s.Name()] = s.State()
		}
	}
	return at
}

// JournalClosed returns the first of the system's journals in any of the directories that this
// process may not read, "" where there is none. journalctl then shows the others and does not say so
// with --quiet: an ordinary user has one of his own.
func JournalClosed(dirs ...string) string {
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*", "system*.journal"))
		if err != nil {
			continue
		}
		for _, path := range files {
			if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS); errors.Is(err, fs.ErrPermission) {
				return path
			}
		}
		if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) {
			return dir
		}
	}
	return ""
}
