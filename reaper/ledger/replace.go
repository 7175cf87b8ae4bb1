package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tmpSuffix ends the name of a file that is being written.
const tmpSuffix = ".tmp"

// freeName returns prefix with the first unused number. The caller holds the append lock.
func (s *Store) freeName(prefix string) (string, error) {
	for n := 1; n < 100_000; n++ {
		name := fmt.Sprintf("%s%d", prefix, n)
		if _, err := s.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", fmt.Errorf("cannot find a free name in %s: %w", s.dir, err)
		}
	}
	return "", fmt.Errorf("cannot find a free name for %sN in %s", prefix, s.dir)
}

// writeFile replaces a file as a whole. The caller holds the append lock, so no other process uses the temporary
// file. One that a crash has left is overwritten.
func (s *Store) writeFile(name string, content []byte) error {
	return s.replace(name, func(f File) error {
		_, err := f.Write(content)
		return err
	})
}

func (s *Store) replace(name string, write func(File) error) error {
	tmp := name + tmpSuffix
	f, err := s.openRegular(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.root.Rename(tmp, name)
	}
	if err != nil {
		// The incomplete file must not use space on a full disk.
		if rm := s.root.Remove(tmp); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
		return fmt.Errorf("cannot write %s: %w", filepath.Join(s.dir, name), err)
	}
	return s.syncDirOf(filepath.Dir(name))
}
