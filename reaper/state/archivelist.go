package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
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
		name, ok := strings.CutSuffix(e.Name(), archiveSuffix)
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
	d, err := s.root.Open(archiveDir)
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
	r, err := s.openArchive(name)
	if err != nil {
		return info, err
	}
	defer r.close()
	if st, err := r.f.Stat(); err == nil {
		info.Size = st.Size()
	}
	a, err := r.about()
	if err != nil {
		return info, r.damaged(err)
	}
	info.At, info.Files, info.Bytes = a.At, a.Files, a.Bytes
	return info, nil
}
