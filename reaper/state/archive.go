package state

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// archiveVersion is the version of an archive's members.
const archiveVersion = 1

// An archive is STATE-DIR/archive/NAME.tar.gz with these members: what the archive is; a
// line of JSON for each file, which says what tar cannot (nanoseconds, the SELinux label,
// whose file it was); and the files by their whole paths without the first slash, in the
// order of the lines, so that tar -C / -xzf puts them back, though over whatever is there.
const (
	archiveSuffix = ".tar.gz"
	aboutMember   = "orphan-reaper.json"
	indexMember   = "orphan-reaper.index.jsonl"
)

// The bounds of an archive's members, for the writer as for the reader.
const (
	mostAbout = 64 << 10
	mostIndex = 64 << 20
	mostFile  = 64 << 20
)

// ArchiveInfo is what is known of an archive without reading all of it.
type ArchiveInfo struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"` // of the files' contents
	Size  int64     `json:"size"`  // of the archive itself
	// Err says why the archive cannot be used; then only Name and Size are known.
	Err error `json:"-"`
}

// about is the first member.
type about struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
}

// archived is a line of the second member. Path is for people: JSON cannot hold each byte
// that a name may, so the name comes from the tar header.
type archived struct {
	Path      string         `json:"path"`
	Kind      cni.Kind       `json:"kind"`
	ID        cni.FileID     `json:"id"`
	Mode      uint32         `json:"mode"`
	Owner     [2]uint32      `json:"owner"`
	Mtime     stamp          `json:"mtime"`
	Changed   stamp          `json:"changed,omitzero"`
	Label     string         `json:"label,omitempty"`
	Container string         `json:"container,omitempty"`
	Network   string         `json:"network,omitempty"`
	IfName    string         `json:"ifname,omitempty"`
	UID       parsers.PodUID `json:"uid,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod,omitempty"`
	Broken    bool           `json:"broken,omitempty"`
	Runtime   string         `json:"runtime,omitempty"`
	Reaped    bool           `json:"reaped,omitempty"`
}

// stamp is seconds and nanoseconds: a file's time may be of any year, and JSON's may not.
type stamp [2]int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}
	return stamp{t.Unix(), int64(t.Nanosecond())}
}

func (s stamp) time() time.Time {
	if s == (stamp{}) {
		return time.Time{}
	}
	return time.Unix(s[0], s[1]).UTC()
}

// Archive keeps the files under name, all of them or none: when it returns nil they are on
// disk and may be removed. Those whose Err is set are left out. A name that is taken is an
// error, since what it holds may be the last copy of something.
//
// It compresses at gzip's fastest. Cache files are alike, so 300,000 of them take 54 MB
// instead of 760 MB of a disk that may be nearly full, and the smaller write saves more than
// the compression costs: 8.5 µs of CPU for a file, 13 µs without it, both with the sync.
func (s *Store) Archive(name string, files []cni.Content) error {
	file, err := archiveFile(name)
	if err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	if unread := func(f cni.Content) bool { return f.Err != "" }; slices.ContainsFunc(files, unread) {
		files = slices.DeleteFunc(slices.Clone(files), unread)
	}
	head, index, err := describe(files)
	if err != nil {
		return fmt.Errorf("cannot archive %s: %w", name, err)
	}
	release, err := s.lockAppend()
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
	return s.replace(file, func(f *os.File) error { return writeArchive(f, head, index, files) })
}

// archiveFile returns the file of an archive. A name may come from a person.
func archiveFile(name string) (string, error) {
	if name == "" || len(name) > 100 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", fmt.Errorf("cannot use %.100q as the name of an archive: lower-case letters, digits and dashes only", name)
	}
	return path.Join(archiveDir, name+archiveSuffix), nil
}

// makeArchiveDir makes the directory where it is missing. The caller holds the append lock.
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

// usualLine is how long a line of the index is where the names are not long.
const usualLine = 800

// describe makes the first two members.
func describe(files []cni.Content) (head, index []byte, err error) {
	a := about{Version: archiveVersion, At: Clock{}.Now().Wall, Files: len(files)}
	var lines bytes.Buffer
	lines.Grow(len(files) * usualLine)
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for i := range files {
		c := &files[i]
		f := &c.File
		at := memberName(f)
		switch {
		case at == "":
			return nil, nil, fmt.Errorf("%q in %q is no file of a directory", f.Name, f.Dir)
		case len(c.Data) > mostFile:
			return nil, nil, fmt.Errorf("%q is too large, %d bytes", at, len(c.Data))
		}
		a.Bytes += int64(len(c.Data))
		if err := enc.Encode(archived{
			Path: at, Kind: f.Kind, ID: f.ID, Mode: c.Mode, Owner: c.Owner, Mtime: stampOf(c.Mtime), Changed: stampOf(f.Changed), Label: c.Label,
			Container: f.Container, Network: f.Network, IfName: f.IfName, UID: f.UID, Namespace: f.Namespace, PodName: f.PodName,
			Broken: f.Broken, Runtime: f.Runtime, Reaped: f.Reaped,
		}); err != nil {
			return nil, nil, err
		}
	}
	if lines.Len() > mostIndex {
		return nil, nil, fmt.Errorf("too many files for one archive, %d", len(files))
	}
	head, err = json.Marshal(a)
	return append(head, '\n'), lines.Bytes(), err
}

// memberName is the file's path without the first slash, "" where splitName would not give
// back directory and name.
func memberName(f *cni.File) string {
	if len(f.Dir) < 2 || f.Dir[0] != '/' || path.Clean(f.Dir) != f.Dir || strings.ContainsAny(f.Name, "/\x00") ||
		f.Name == "" || f.Name == "." || f.Name == ".." || strings.Contains(f.Dir, "\x00") {
		return ""
	}
	return f.Dir[1:] + "/" + f.Name
}

func splitName(member string) (dir, name string) {
	dir, name = path.Split("/" + member)
	return strings.TrimSuffix(dir, "/"), name
}

func writeArchive(f *os.File, head, index []byte, files []cni.Content) error {
	buf := bufio.NewWriterSize(f, 256<<10)
	zip, err := gzip.NewWriterLevel(buf, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	// The format of GNU tar takes any byte in a name, and tells nobody of unknown keywords.
	member := func(h tar.Header, data []byte) error {
		h.Typeflag, h.Format, h.Size = tar.TypeReg, tar.FormatGNU, int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	if err := member(tar.Header{Name: aboutMember, Mode: 0o600}, head); err != nil {
		return err
	}
	if err := member(tar.Header{Name: indexMember, Mode: 0o600}, index); err != nil {
		return err
	}
	for i := range files {
		c := &files[i]
		err := member(tar.Header{
			Name: memberName(&c.File), Mode: int64(c.Mode), Uid: int(c.Owner[0]), Gid: int(c.Owner[1]), ModTime: c.Mtime.Truncate(time.Second),
		}, c.Data)
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// DropArchive removes an archive, and what it holds for good.
func (s *Store) DropArchive(name string) error {
	file, err := archiveFile(name)
	if err != nil {
		return err
	}
	if s.readOnly {
		return ErrReadOnly
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	if err := s.root.Remove(file); err != nil {
		return fmt.Errorf("cannot drop %s: %w", filepath.Join(s.dir, file), err)
	}
	return s.syncDirOf(archiveDir)
}

// dropUnfinished takes away what a crash left of archives that were being written. The
// caller holds the append lock, so no process is writing one now. What cannot be removed
// takes space and does no harm.
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
