package state

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/archive"
)

// Archives lists what is archived, the oldest first. It reads the beginning of each; one
// that cannot be used is listed with its Err.
func (s *Store) Archives() ([]ArchiveInfo, error) {
	entries, err := s.archiveEntries()
	if err != nil {
		return nil, err
	}
	var list []ArchiveInfo
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), archive.Suffix)
		if !ok {
			continue
		}
		info, err := s.archiveInfo(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		info.Err = err
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b ArchiveInfo) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Name, b.Name)) })
	return list, nil
}

func (s *Store) archiveEntries() ([]fs.DirEntry, error) {
	if s.root == nil {
		return nil, nil
	}
	d, err := s.root.OpenFile(archiveDir, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", filepath.Join(s.dir, archiveDir), err)
	}
	return entries, nil
}

func (s *Store) archiveInfo(name string) (ArchiveInfo, error) {
	info := ArchiveInfo{Name: name}
	f, err := s.openArchive(name)
	if err != nil {
		return info, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if st, err := f.Stat(); err == nil {
		info.Size = st.Size()
	}
	a, err := archive.ReadAbout(f)
	if err != nil {
		return info, s.damaged(name, err)
	}
	info.At, info.Files, info.Bytes = a.At, a.Files, a.Bytes
	return info, nil
}

// ReadArchive gives each file of an archive to each, in the order in which they were
// archived, and stops at its first error. The whole archive is read and compared with its
// checksum before the first is given.
func (s *Store) ReadArchive(name string, each func(cni.File) error) error {
	f, err := s.openArchive(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if err := archive.Read(f, func(cni.File) error { return nil }); err != nil {
		return s.damaged(name, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return s.damaged(name, err)
	}
	var fromEach error
	err = archive.Read(f, func(c cni.File) error {
		fromEach = each(c)
		return fromEach
	})
	if fromEach != nil {
		return fromEach
	}
	return s.damaged(name, err)
}

func (s *Store) openArchive(name string) (File, error) {
	file, err := archiveFile(name)
	if err != nil {
		return nil, err
	}
	if s.root == nil {
		return nil, fmt.Errorf("cannot open %s: %w", filepath.Join(s.dir, file), os.ErrNotExist)
	}
	return s.openRegular(file, os.O_RDONLY)
}

// damaged tells which archive it is, and what can be done.
func (s *Store) damaged(name string, err error) error {
	file, _ := archiveFile(name) // it was opened by this name
	path := filepath.Join(s.dir, file)
	newer, isNewer := errors.AsType[*archive.NewerError](err)
	switch {
	case err == nil:
		return nil
	case isNewer:
		return fmt.Errorf("cannot read %s: %w: %w; install that one", path, newer, ErrNewer)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cannot read %s, nothing of it was used: %w; tar -tzf shows what is left of it", path, err)
}
