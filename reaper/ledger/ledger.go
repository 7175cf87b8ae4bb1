package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// The files of the state directory.
const (
	ledgerFile = "ledger.jsonl"
	sentFile   = "sent"
	runLock    = "run.lock"
	actLock    = "act.lock"
	appendLock = "append.lock"
)

// The errors for callers to check.
var (
	// ErrNewer is returned if a newer version wrote an event. Nothing was changed.
	ErrNewer = errors.New("written by a newer version of orphan-reaper")
	// ErrRemoved is returned if the state directory was removed: only a new start makes another one.
	ErrRemoved = errors.New("the state directory was removed")
	// ErrReadOnly is returned if the store was opened by OpenReadOnly.
	ErrReadOnly = errors.New("the state directory is open for reading only")
)

// Options are the options of Open and OpenReadOnly. The zero value is usable.
type Options struct {
	// Log gets events that are not returned as errors, such as a damaged value that was moved aside. nil discards them.
	Log *slog.Logger
	// CompactBytes is the size of the ledger above which old events are dropped; 0 is 16 MiB.
	CompactBytes int64
	// KeepEvents is how many of the last events are never dropped; 0 is 10,000.
	KeepEvents int
	// By is the user of the current command. It is set in every event without By.
	By *judge.User
	// Quarantine is the directory to which pods are moved. A store with entries of another one is refused: they would be
	// missed, and then counted as removed by somebody else. "" is not compared.
	Quarantine string
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.CompactBytes == 0 {
		o.CompactBytes = 16 << 20
	}
	if o.KeepEvents == 0 {
		o.KeepEvents = 10_000
	}
	return o
}

// Store is one open state directory: the ledger, the values and the locks. Its methods may be called from several
// goroutines.
type Store struct {
	dir      string
	root     Dir
	readOnly bool
	log      *slog.Logger
	opts     Options

	// locks has the held lock files: the garbage collector would close an unreferenced one and so release its lock.
	locks    sync.Map
	changing sync.Mutex // held with the append lock; locked after mu
	mu       sync.Mutex // guards the fields below
	ledger   ledger
	sent     File // nil in a read-only store
	// compactAt is the size above which the next append tries to drop old events.
	compactAt int64
}

// Open opens dir for a process that may append, and creates it with mode 0700 if it is missing. It moves the residue of
// an unfinished write aside, and drops old events of a large ledger. It refuses, without any change, a directory that
// is a symlink, that another user owns or may write to, or whose ledger a newer version wrote.
func Open(dir string, opts Options) (*Store, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	s, err := openDir(dir, opts)
	if err != nil {
		return nil, err
	}
	return s.opened()
}

// OpenIn is Open for a directory in memory: the simulator of package reaper's tests cuts its power.
func OpenIn(dir Dir, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	s := &Store{dir: "memory", root: dir, log: opts.Log, opts: opts}
	return s.opened()
}

func (s *Store) opened() (*Store, error) {
	if err := s.openForWriting(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) openForWriting() error {
	if err := s.checkOwner(); err != nil {
		return err
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	if err := s.openSent(); err != nil {
		return err
	}
	if err := cmp.Or(s.load(), s.checkQuarantine()); err != nil {
		return err
	}
	s.compactAt = s.opts.CompactBytes
	if err := s.compactIfLarge(); err != nil {
		// Usually the disk is full. The ledger is complete, so the program can start.
		s.log.Warn("cannot drop old events from the ledger", errAttr(err))
	}
	return nil
}

// OpenReadOnly opens dir for scan, explain and quarantine list. It changes nothing, acquires no lock, works for
// any user who may read the files, and treats a missing directory as empty. It ignores an unfinished last line,
// which may be an append in progress.
func OpenReadOnly(dir string, opts Options) (*Store, error) {
	s, err := openDir(dir, opts)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = &Store{dir: dir, root: absent{}, log: opts.withDefaults().Log}, nil
	}
	if err != nil {
		return nil, err
	}
	s.readOnly = true
	if err := cmp.Or(s.load(), s.checkQuarantine()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkQuarantine returns an error if a pod is in another quarantine.
func (s *Store) checkQuarantine() error {
	for _, e := range s.ledger.folded.Entries {
		if s.opts.Quarantine != "" && e.Quarantine != "" && e.Quarantine != s.opts.Quarantine {
			return fmt.Errorf("cannot use the quarantine %s: %s is in the quarantine %s; set quarantine_dir to that, or restore or purge first what is there",
				s.opts.Quarantine, e.Name, e.Quarantine)
		}
	}
	return nil
}

// Close closes the files, and ends the locks that are still held.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for f := range s.locks.Range {
		errs = append(errs, f.(File).Close()) //nolint:forcetypeassert // only tryLock stores
	}
	s.locks.Clear()
	if s.ledger.file != nil {
		errs = append(errs, s.ledger.file.Close())
		s.ledger.file = nil
	}
	if s.sent != nil {
		errs = append(errs, s.sent.Close())
		s.sent = nil
	}
	return errors.Join(append(errs, s.root.Close())...)
}

// Dir returns the directory's path as it was given.
func (s *Store) Dir() string { return s.dir }

// makeDir makes a missing dir, and syncs its parent, so that the directory's name is durable before the first intent.
func makeDir(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // it exists, or openDir returns the error
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the state directory: %w", err)
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return fmt.Errorf("cannot sync the state directory's parent: %w", err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return fmt.Errorf("cannot sync the state directory's parent: %w", err)
	}
	return nil
}

// openDir opens dir as the root for every file, so that a directory that replaces it later is never written to.
func openDir(dir string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	before, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the state directory: %w", err)
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("cannot use %s as state directory: it is no directory (a symlink is not followed)", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the state directory: %w", err)
	}
	s := &Store{dir: dir, root: disk{root}, log: opts.Log, opts: opts}
	now, err := root.Stat(".")
	if err == nil && !os.SameFile(before, now) {
		err = errors.New("another directory has its name now")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the state directory %s: %w", dir, err), root.Close())
	}
	return s, nil
}

// checkOwner refuses a directory that another user could write to, since decisions depend on the ledger.
func (s *Store) checkOwner() error {
	info, err := s.root.Stat(".")
	if err != nil {
		return fmt.Errorf("cannot read the state directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("cannot find out who owns %s", s.dir)
	}
	if uid := os.Geteuid(); int(st.Uid) != uid {
		return fmt.Errorf("cannot use %s as state directory: user %d owns it, and this process runs as user %d", s.dir, st.Uid, uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("cannot use %s as state directory: others may write to it (mode %04o); chmod go-w it", s.dir, info.Mode().Perm())
	}
	return nil
}

// openRegular opens a regular file of the directory. It checks the type first, since opening a FIFO blocks.
func (s *Store) openRegular(name string, flag int) (File, error) {
	info, err := s.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot open %s: %w", filepath.Join(s.dir, name), errNotRegular)
	}
	f, err := s.root.OpenFile(name, flag|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", filepath.Join(s.dir, name), err)
	}
	return f, nil
}

// syncDir makes the names in the directory durable.
func (s *Store) syncDir() error { return s.syncDirOf(".") }

// syncDirOf makes the names in a subdirectory durable.
func (s *Store) syncDirOf(name string) error {
	d, err := s.root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot sync %s: %w", filepath.Join(s.dir, name), err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("cannot sync %s: %w", filepath.Join(s.dir, name), err)
	}
	return nil
}
