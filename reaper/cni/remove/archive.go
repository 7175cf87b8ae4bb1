package remove

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// ArchiveStore keeps archives in a state directory.
type ArchiveStore struct {
	*state.Store
}

// Archive archives all files under name, or none: when it returns nil they are on disk and may be removed. It leaves
// out files whose Err is set.
func (s ArchiveStore) Archive(name string, at policy.Instant, files []cni.File) error {
	if unread := func(f cni.File) bool { return f.Err != "" }; slices.ContainsFunc(files, unread) {
		files = slices.DeleteFunc(slices.Clone(files), unread)
	}
	head, index, err := describe(at, files)
	if err != nil {
		return fmt.Errorf("cannot archive %s: %w", name, err)
	}
	return s.CreateArchive(name, func(f state.File) error { return writeArchive(f, head, index, files) })
}

// Archives lists the archives, the oldest first. It reads the beginning of each. One that cannot be read has Err.
func (s ArchiveStore) Archives() ([]cni.ArchiveState, error) {
	names, err := s.ArchiveNames()
	var list []cni.ArchiveState
	for _, name := range names {
		a := cni.ArchiveState{Name: name}
		err := s.open(name, func(f state.File) error {
			_, about, err := openArchive(f)
			if err == nil {
				a.At, a.Files, a.Bytes = about.instant(), int64(about.Files), about.Bytes
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			a.Err = err.Error()
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b cni.ArchiveState) int {
		return cmp.Or(a.At.Wall.Compare(b.At.Wall), strings.Compare(a.Name, b.Name))
	})
	return list, err
}

// ReadArchive calls each with each file of an archive, in order, and stops at its first error. It compares the whole
// archive with its checksum before the first call.
func (s ArchiveStore) ReadArchive(name string, each func(cni.File) error) error {
	var fromEach error
	err := s.open(name, func(f state.File) error {
		if err := walkArchive(f, func(cni.File) error { return nil }); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return walkArchive(f, func(c cni.File) error {
			fromEach = each(c)
			return fromEach
		})
	})
	return cmp.Or(fromEach, err)
}

// open calls read with an archive. Its error names the archive and what an operator can do.
func (s ArchiveStore) open(name string, read func(state.File) error) error {
	f, err := s.OpenArchive(name)
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := read(f); {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf(damaged, f.Name(), io.ErrUnexpectedEOF)
	default:
		return fmt.Errorf(damaged, f.Name(), err)
	}
}

const damaged = "cannot read %s, nothing of it was used: %w; tar -tzf shows what is left of it"
