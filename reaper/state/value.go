package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// tmpSuffix ends the name of a file that is being written.
const tmpSuffix = ".tmp"

// errDamaged is the error of a value that cannot be used.
var errDamaged = errors.New("the value is damaged")

// Load reads the value that was saved under name into v, and returns false if there is none. A damaged file is moved
// to NAME.corrupt-N, logged, and counts as absent.
func (s *Store) Load(name string, v any) (bool, error) {
	file, err := valueFile(name)
	if err != nil {
		return false, err
	}
	ok, err := s.read(file, v)
	if errors.Is(err, errDamaged) {
		return false, s.setAside(name, file, err)
	}
	return ok, err
}

func (s *Store) read(file string, v any) (bool, error) {
	b, err := s.root.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot load %s: %w", filepath.Join(s.dir, file), err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return true, nil
}

// setAside renames a damaged value, so that it is logged once and kept.
func (s *Store) setAside(name, file string, cause error) error {
	path := slog.String("path", filepath.Join(s.dir, file))
	if s.readOnly {
		s.log.Warn("a saved value is damaged and was not used", path, slog.Any("error", cause))
		return nil
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	aside, err := s.freeName(name + ".corrupt-")
	if err != nil {
		return err
	}
	if err := s.root.Rename(file, aside); err != nil {
		return fmt.Errorf("cannot move a damaged value aside: %w", err)
	}
	s.log.Error("a saved value was damaged and is not used; its file was kept",
		path, slog.String("kept_as", aside), slog.Any("error", cause))
	return s.syncDir()
}

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

// Save stores v under name. After a crash the file holds either v or its earlier content.
func (s *Store) Save(name string, v any) error {
	file, err := valueFile(name)
	if err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot save %s: %w", name, err)
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	write := func() error { return s.writeFile(file, append(b, '\n')) }
	if beforeIntents[name] {
		err = s.spending(write)
	} else {
		err = write()
	}
	if err == nil {
		s.keepReserve()
	}
	return err
}

// valueFile returns the file of a value. It rejects a name that is a path; names come from the program, never from
// input.
func valueFile(name string) (string, error) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", fmt.Errorf("cannot use %q as the name of a value: lower-case letters, digits and dashes only", name)
	}
	return name + ".json", nil
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
