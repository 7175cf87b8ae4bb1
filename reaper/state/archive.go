package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// archiveSuffix ends the name of an archive's file. Package cni/remove defines its content.
const archiveSuffix = ".tar.gz"

// CreateArchive writes a complete archive or none. When it returns nil, the archive is on disk and the archived files
// may be removed. An existing name is an error, since that archive may be the last copy of its files.
func (s *Store) CreateArchive(name string, write func(File) error) error {
	file, release, err := s.lockArchive(name)
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
	return s.replace(file, write)
}

// OpenArchive opens an archive for reading.
func (s *Store) OpenArchive(name string) (File, error) {
	file, err := archiveFile(name)
	if err != nil {
		return nil, err
	}
	return s.openRegular(file, os.O_RDONLY)
}

// ArchiveNames lists the archives, sorted by name.
func (s *Store) ArchiveNames() (names []string, err error) {
	entries, err := s.archiveEntries()
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), archiveSuffix); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// DropArchive removes an archive and its content for good.
func (s *Store) DropArchive(name string) error {
	file, release, err := s.lockArchive(name)
	if err != nil {
		return err
	}
	defer release()
	if err := s.root.Remove(file); err != nil {
		return fmt.Errorf("cannot drop %s: %w", filepath.Join(s.dir, file), err)
	}
	return s.syncDirOf(archiveDir)
}

// archiveFile returns the file of an archive. The name may come from an operator.
func archiveFile(name string) (string, error) {
	if name == "" || len(name) > 100 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", fmt.Errorf("cannot use %.100q as the name of an archive: lower-case letters, digits and dashes only", name)
	}
	return path.Join(archiveDir, name+archiveSuffix), nil
}

// lockArchive returns the path of an archive and acquires the append lock for a change.
func (s *Store) lockArchive(name string) (file string, release func(), err error) {
	if file, err = archiveFile(name); err != nil {
		return "", nil, err
	}
	if s.readOnly {
		return "", nil, ErrReadOnly
	}
	release, err = s.lockAppend()
	return file, release, err
}

// makeArchiveDir makes the directory if it is missing. The caller holds the append lock.
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

func (s *Store) archiveEntries() ([]fs.DirEntry, error) {
	d, err := s.root.OpenFile(archiveDir, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	entries, err := d.ReadDir(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// dropUnfinished removes the residue of a crash during CreateArchive. The caller holds the append lock, so no process is
// writing an archive.
func (s *Store) dropUnfinished() {
	entries, err := s.archiveEntries()
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), archiveSuffix+tmpSuffix) {
			err = errors.Join(err, s.root.Remove(path.Join(archiveDir, e.Name())))
		}
	}
	if err != nil {
		s.log.Warn("cannot remove an unfinished archive", slog.Any("error", err))
	}
}
