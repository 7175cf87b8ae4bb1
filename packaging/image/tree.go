package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// program is the one that the image starts, at the root of each tree.
const program = "orphan-reaper"

// platforms are those that an image can be for, by the machine that ELF names.
var platforms = map[elf.Machine]platform{
	elf.EM_X86_64:  {Architecture: "amd64", OS: "linux"},
	elf.EM_AARCH64: {Architecture: "arm64", OS: "linux", Variant: "v8"},
}

// platformOf reads the platform off the program, so that no image can have another's.
func platformOf(path string) (platform, error) {
	f, err := elf.Open(path)
	if err != nil {
		return platform{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // read only
	p, ok := platforms[f.Machine]
	if !ok {
		return platform{}, fmt.Errorf("%s is for %s, for which there is no image", path, f.Machine)
	}
	// There is no dynamic linker in the image.
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return platform{}, fmt.Errorf("%s is not static: build it with CGO_ENABLED=0", path)
	}
	return p, nil
}

// layerOf returns the tree as a tar. Everything is root's and of one time.
func layerOf(tree string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// WalkDir goes in lexical order, and names a directory before what is in it.
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == tree {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR, Typeflag: tar.TypeDir}
		if d.IsDir() {
			h.Name += "/"
			return w.WriteHeader(h)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("cannot put %s into an image: it is no regular file", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		if info.Mode()&0o100 == 0 {
			h.Mode = 0o644
		}
		return writeFile(w, h, text)
	})
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

func writeFile(w *tar.Writer, h *tar.Header, text []byte) error {
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// compress leaves out name and time.
func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
