package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/archive"
)

// ArchiveInfo is what is known of an archive without reading all of it.
type ArchiveInfo struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"` // of the files' contents
	Size  int64     `json:"size"`  // of the archive itself
	// Err says why the archive cannot be used; then only Name and Size are known.
	Err error `json:"-"`
}

// Archive keeps the files under name, all of them or none: when it returns nil they are on
// disk and may be removed. Those whose Err is set are left out. A name that is taken is an
// error, since what it holds may be the last copy of something.
func (s *Store) Archive(name string, files []cni.File) error {
	file, err := archiveFile(name)
	if err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	if unread := func(f cni.File) bool { return f.Err != "" }; slices.ContainsFunc(files, unread) {
		files = slices.DeleteFunc(slices.Clone(files), unread)
	}
	content, err := archive.New(Clock{}.Now().Wall, files)
	if err != nil {
		return fmt.Errorf("cannot archive %s: %w", name, err)
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	if err := s.makeArchiveDir(); err != nil {
		return err
	}
	if _, err := s.root.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write %s: %w", filepath.Join(s.dir, file), cmp.Or(err, fs.ErrExist))
	}
	return s.replace(file, func(f File) error { return content.Write(f) })
}

// ArchivePath is where the archive of a state directory lies.
func ArchivePath(dir, name string) string { return filepath.Join(dir, archiveDir, name+archive.Suffix) }

// archiveFile returns the file of an archive. A name may come from a person.
func archiveFile(name string) (string, error) {
	if name == "" || len(name) > 100 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", fmt.Errorf("cannot use %.100q as the name of an archive: lower-case letters, digits and dashes only", name)
	}
	return path.Join(archiveDir, name+archive.Suffix), nil
}

// makeArchiveDir makes the directory where it is missing. The caller holds the append lock.
func (s *Store) makeArchiveDir() error {
	err := s.root.Mkdir(archiveDir, 0o700)
	if err == nil {
		return s.syncDir()
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	info, err := s.root.Lstat(archiveDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory (a symlink is not followed)")
	}
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	return nil
}

// DropArchive removes an archive, and what it holds for good.
func (s *Store) DropArchive(name string) error {
	file, err := archiveFile(name)
	if err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	if err := s.root.Remove(file); err != nil {
		return fmt.Errorf("cannot drop %s: %w", filepath.Join(s.dir, file), err)
	}
	return s.syncDirOf(archiveDir)
}

// dropUnfinished takes away what a crash left of archives that were being written. The
// caller holds the append lock, so no process is writing one now. What cannot be removed
// takes space and does no harm.
func (s *Store) dropUnfinished() {
	entries, err := s.archiveEntries()
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), archive.Suffix+tmpSuffix) {
			err = errors.Join(err, s.root.Remove(path.Join(archiveDir, e.Name())))
		}
	}
	if err != nil {
		s.log.Warn("cannot remove an unfinished archive", slog.Any("error", err))
	}
}
