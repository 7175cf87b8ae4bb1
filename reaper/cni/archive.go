package cni

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/quarantine"
)

// The name of an archive: cni-TIME.tar.gz.
const (
	archivePrefix = "cni-"
	archiveSuffix = ".tar.gz"
)

// changes are the calls that change the disk. A test puts a recorder, an attacker or a killer in their place.
type changes interface {
	create(path string) (*os.File, error)
	sync(f *os.File) error
	unlink(dir *fdpath.Dir, name string) error
}

// kernel makes the changes outside of tests.
type kernel struct{}

func (kernel) create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (kernel) sync(f *os.File) error { return f.Sync() }

func (kernel) unlink(dir *fdpath.Dir, name string) error { return quarantine.Unlink(dir, name) }

// archive is the tar of one sweep. tar -xf reads it. It is compressed, since cache files are alike: 300,000 of them need 54 MB
// and not 760 MB of a disk that may be nearly full.
type archive struct {
	path string
	file *os.File
	buf  *bufio.Writer
	zip  *gzip.Writer
	tar  *tar.Writer
}

func (s *Sweeper) createArchive(now judge.Instant) (*archive, error) {
	a := &archive{path: filepath.Join(s.cfg.StateDir, archivePrefix+now.Wall.UTC().Format("20060102T150405.000000000")+archiveSuffix)}
	s.enter(a.path)
	var err error
	if a.file, err = s.changes.create(a.path); err != nil {
		return nil, err
	}
	a.buf = bufio.NewWriterSize(a.file, 256<<10)
	if a.zip, err = gzip.NewWriterLevel(a.buf, gzip.BestSpeed); err != nil {
		return nil, err
	}
	a.tar = tar.NewWriter(a.zip)
	return a, nil
}

// add adds a file by its whole path without the first slash: tar -C / restores it.
func (a *archive) add(name string, st *unix.Statx_t, text []byte) error {
	// The GNU format allows any byte in a name.
	err := a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Format: tar.FormatGNU, Name: strings.TrimPrefix(name, "/"), Size: int64(len(text)),
		Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtime.Sec, 0),
	})
	if err != nil {
		return err
	}
	_, err = a.tar.Write(text)
	return err
}

// finish ends the archive. When it returns nil, the archive and its name are on disk.
func (s *Sweeper) finish(a *archive) error {
	s.enter(a.path)
	defer a.file.Close() // also if an earlier end fails: the space of an open file stays in use
	for _, end := range []func() error{a.tar.Close, a.zip.Close, a.buf.Flush, func() error { return s.changes.sync(a.file) }, a.file.Close} {
		if err := end(); err != nil {
			return err
		}
	}
	dir, err := os.Open(s.cfg.StateDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return s.changes.sync(dir)
}

// undo returns the command that restores the files of an archive. It replaces none: an address may have a new owner. It does
// not restore their times, by which the next sweep would remove them again.
func undo(archive string) string { return "tar -C / -xkmf " + bounded.Shell(archive) }

// drop removes an archive that is not needed.
func (s *Sweeper) drop(archive string) error {
	s.enter(archive)
	dir, err := s.open.Open(s.cfg.StateDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return s.changes.unlink(dir, path.Base(archive))
}

// dropOld removes the archives that are older than the retention, also those that a killed process has not finished.
func (s *Sweeper) dropOld(now judge.Instant, retention time.Duration) error {
	s.enter(s.cfg.StateDir)
	entries, err := os.ReadDir(s.cfg.StateDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), archivePrefix) || !strings.HasSuffix(e.Name(), archiveSuffix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err == nil && now.Wall.Sub(info.ModTime()) > retention {
			if err := s.drop(e.Name()); err != nil {
				return fmt.Errorf("cannot remove the old archive %s: %w", e.Name(), err)
			}
		}
	}
	return nil
}
