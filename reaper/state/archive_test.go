package state

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// longArchive is the size in bytes of the archive whose writer is killed.
const longArchive = 1 << 20

// holding returns a function that writes n bytes.
func holding(n int) func(File) error {
	return func(f File) error {
		_, err := f.Write(bytes.Repeat([]byte("x"), n))
		return err
	}
}

// TestArchiveNames checks that a name must be a plain file name, and that an existing archive is not replaced.
func TestArchiveNames(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, name := range []string{"", ".", "../x", "a/b", "A", "x.y", strings.Repeat("x", 101)} {
		if _, err := s.OpenArchive(name); err == nil || s.CreateArchive(name, holding(1)) == nil || s.DropArchive(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	testkit.Must(t, s.CreateArchive("cni-1", holding(1)))
	if err := s.CreateArchive("cni-1", holding(2)); !errors.Is(err, fs.ErrExist) {
		t.Error("an existing archive was replaced:", err)
	}
	testkit.Must(t, s.DropArchive("cni-1"))
	if err := s.DropArchive("cni-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := s.OpenArchive("cni-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestArchiveCutOff kills a process while it archives: every archive is complete, and the next start removes the
// rest.
func TestArchiveCutOff(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		cmd, out := startWriter(t, dir, "archive", 1_000_000)
		for range i % 4 {
			out.Scan()
		}
		time.Sleep(time.Duration(i) * time.Millisecond) // at any moment
		testkit.Must(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
		s := open(t, dir, Options{})
		entries, err := os.ReadDir(filepath.Join(dir, "archive"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		list, err := s.ArchiveNames()
		testkit.Must(t, err)
		if len(list) != len(entries) {
			t.Fatalf("%d archives, %v", len(list), entries)
		}
		for _, name := range list {
			if got := readFile(t, filepath.Join(dir, archiveDir, name+archiveSuffix)); len(got) != longArchive || !bytes.Equal(got, bytes.Repeat(got[:1], longArchive)) {
				t.Fatalf("%s: %d bytes", name, len(got))
			}
			testkit.Must(t, s.DropArchive(name))
		}
		testkit.Must(t, s.Close())
	}
}

func TestArchiveUnfinished(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	testkit.Must(t, s.CreateArchive("cni-1", holding(1)))
	testkit.Must(t, s.Close())
	writeFile(t, []byte("half"), dir, "archive", "cni-2.tar.gz.tmp")
	writeFile(t, []byte("a person's"), dir, "archive", "notes")
	s = open(t, dir, Options{})
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	testkit.Must(t, err)
	if len(entries) != 2 || entries[0].Name() != "cni-1.tar.gz" {
		t.Error(entries)
	}
	if list, err := s.ArchiveNames(); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

// TestArchiveDiskFull checks that a full disk is an error that leaves no partial archive and no used space.
func TestArchiveDiskFull(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=700"))
	s := open(t, dir, Options{})
	testkit.Must(t, s.CreateArchive("cni-1", holding(10<<10)))
	if err := s.CreateArchive("cni-2", holding(1<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	testkit.Must(t, s.CreateArchive("cni-3", holding(10<<10)))
	if list, err := s.ArchiveNames(); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
	archives := filepath.Join(dir, "archive")
	testkit.Must(t, unix.Mount(archives, archives, "", unix.MS_BIND, ""))
	testkit.Must(t, unix.Mount("", archives, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := s.CreateArchive("cni-4", holding(10<<10)); !errors.Is(err, unix.EROFS) {
		t.Error(err)
	}
	if len(readFile(t, filepath.Join(dir, archiveDir, "cni-3"+archiveSuffix))) != 10<<10 {
		t.Error("the archives on a read-only disk cannot be listed")
	}
	testkit.Must(t, unix.Unmount(archives, 0))
	testkit.Must(t, s.Close())
	testkit.Must(t, unix.Unmount(dir, 0))
}

// TestArchiveSymlink checks that only a directory is used for the archives: a symbolic link could lead anywhere.
func TestArchiveSymlink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s := open(t, dir, Options{})
	testkit.Must(t, os.Symlink(other, filepath.Join(dir, "archive")))
	if err := s.CreateArchive("cni-1", holding(1)); err == nil {
		t.Error("a symbolic link was followed")
	}
}
