package remove

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// archiveReader reads one archive.
type archiveReader struct {
	from io.Reader
	zip  *gzip.Reader
	tar  *tar.Reader
}

// about reads the first member.
func (r *archiveReader) about() (a about, err error) {
	zip, err := gzip.NewReader(r.from)
	if err != nil {
		return a, err
	}
	r.zip, r.tar = zip, tar.NewReader(zip)
	b, err := r.member(aboutMember, mostAbout)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, err
	}
	switch {
	case a.Version > version:
		return a, fmt.Errorf("version %d, and this program reads version %d: %w", a.Version, version, state.ErrNewer)
	case a.Version < 1 || a.Files < 0:
		return a, errors.New("its first member is empty")
	}
	return a, nil
}

// member reads the next member, which must have this name.
func (r *archiveReader) member(name string, most int64) ([]byte, error) {
	h, err := r.tar.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != name {
		return nil, fmt.Errorf("it holds %.100q where %q should be", h.Name, name)
	}
	return r.data(h, most)
}

func (r *archiveReader) data(h *tar.Header, most int64) ([]byte, error) {
	if h.Typeflag != tar.TypeReg || h.Size > most {
		return nil, fmt.Errorf("%.100q is no file or too large (%d bytes)", h.Name, h.Size)
	}
	b := make([]byte, h.Size)
	if _, err := io.ReadFull(r.tar, b); err != nil && (h.Size > 0 || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	return b, nil
}

// walk calls each with each file, in the order in which they were archived, and stops at its first error. What it gave before an error
// counts for nothing: the checksum comes at the end.
func (r *archiveReader) walk(each func(cni.File) error) error {
	a, err := r.about()
	if err != nil {
		return err
	}
	index, err := r.member(indexMember, mostIndex)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(bytes.NewReader(index))
	for range a.Files {
		var f cni.File
		line := archived{File: &f}
		if err := lines.Decode(&line); err != nil {
			return fmt.Errorf("its index is damaged: %w", err)
		}
		f.Mtime, f.Changed = line.Mtime.time(), line.Changed.time()
		if err := r.content(&f); err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
	}
	if lines.More() {
		return errors.New("its index names more files than it holds")
	}
	if h, err := r.tar.Next(); err == nil {
		return fmt.Errorf("it holds %.100q, which its index does not name", h.Name)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	// gzip compares its checksum at the very end; tar ends before its padding does.
	_, err = io.CopyN(io.Discard, r.zip, mostAbout)
	if err == nil {
		return errors.New("it does not end where it should")
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// content reads the next member, which is the content of f.
func (r *archiveReader) content(f *cni.File) error {
	h, err := r.tar.Next()
	if err != nil {
		return err
	}
	if f.Data, err = r.data(h, mostFile); err != nil {
		return err
	}
	f.Dir, f.Name = splitName(h.Name)
	if memberName(f) != h.Name {
		return fmt.Errorf("%.100q is no path of a file", h.Name)
	}
	return nil
}
