package remove

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// An archive is NAME.tar.gz with these members: a header that identifies the archive; a line of JSON for each
// file with the values that tar cannot store (nanoseconds, the SELinux label, the owning pod); and the files by
// their whole paths without the first slash, in the order of the lines. tar -C / -xzf restores them,
// overwriting existing files.
const (
	aboutMember = "orphan-reaper.json"
	indexMember = "orphan-reaper.index.jsonl"
)

// The size limits of an archive's members, for writing and reading.
const (
	mostAbout = 64 << 10
	mostIndex = 64 << 20
	mostFile  = 64 << 20
)

// about is the first member.
type about struct {
	At     time.Time     `json:"at"`
	BootID string        `json:"boot_id,omitempty"`
	Boot   time.Duration `json:"boot,omitempty"`
	Files  int           `json:"files"`
	Bytes  int64         `json:"bytes"`
}

func (a *about) instant() policy.Instant {
	return policy.Instant{Wall: a.At, BootID: a.BootID, Boot: a.Boot}
}

// archived is a line of the second member. Path is only for messages: JSON cannot hold every byte of a name, so the
// name comes from the tar header. The two times replace those of File.
type archived struct {
	Path string `json:"path"`
	*cni.File
	Mtime   stamp `json:"mtime"`
	Changed stamp `json:"changed,omitzero"`
}

// stamp is seconds and nanoseconds: a file's time may have a year that JSON's time format cannot hold.
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

// usualLine is the usual length of a line of the index.
const usualLine = 800

// describe makes the first two members.
func describe(at policy.Instant, files []cni.File) (head, index []byte, err error) {
	a := about{At: at.Wall, BootID: at.BootID, Boot: at.Boot, Files: len(files)}
	var lines bytes.Buffer
	lines.Grow(len(files) * usualLine)
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for i := range files {
		f := &files[i]
		name := memberName(f)
		switch {
		case name == "":
			return nil, nil, fmt.Errorf("%q in %q is no file of a directory", f.Name, f.Dir)
		case len(f.Data) > mostFile:
			return nil, nil, fmt.Errorf("%q is too large, %d bytes", name, len(f.Data))
		}
		a.Bytes += int64(len(f.Data))
		if err := enc.Encode(archived{name, f, stampOf(f.Mtime), stampOf(f.Changed)}); err != nil {
			return nil, nil, err
		}
	}
	if lines.Len() > mostIndex {
		return nil, nil, fmt.Errorf("too many files for one archive, %d", len(files))
	}
	head, err = json.Marshal(a)
	return append(head, '\n'), lines.Bytes(), err
}

// memberName returns the file's path without the first slash, or "" if splitName would not return its directory and
// name.
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

// writeArchive writes an archive at gzip's fastest level. Cache files are alike, so 300,000 of them need 54 MB
// instead of 760 MB of a disk that may be nearly full, and the smaller write saves more than the compression
// costs: 8.5 µs of processor time a file, 13 µs without it, both with the sync.
func writeArchive(to io.Writer, head, index []byte, files []cni.File) error {
	buf := bufio.NewWriterSize(to, 256<<10)
	zip, err := gzip.NewWriterLevel(buf, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	// The GNU format allows any byte in a name, and GNU tar warns of no unknown keywords.
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
		f := &files[i]
		err := member(tar.Header{
			Name: memberName(f), Mode: int64(f.Mode), Uid: int(f.Owner[0]), Gid: int(f.Owner[1]), ModTime: f.Mtime.Truncate(time.Second),
		}, f.Data)
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

type archiveReader struct {
	zip *gzip.Reader
	tar *tar.Reader
}

// openArchive reads the first member.
func openArchive(from io.Reader) (r archiveReader, a about, err error) {
	if r.zip, err = gzip.NewReader(from); err != nil {
		return r, a, err
	}
	r.tar = tar.NewReader(r.zip)
	b, err := r.member(aboutMember, mostAbout)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	switch {
	case err != nil:
	case a.At.IsZero() || a.Files < 0:
		err = errors.New("its first member is empty")
	}
	return r, a, err
}

// member reads the next member, which must have this name.
func (r archiveReader) member(name string, most int64) ([]byte, error) {
	h, err := r.tar.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != name {
		return nil, fmt.Errorf("it holds %.100q where %q should be", h.Name, name)
	}
	return r.data(h, most)
}

func (r archiveReader) data(h *tar.Header, most int64) ([]byte, error) {
	if h.Typeflag != tar.TypeReg || h.Size > most {
		return nil, fmt.Errorf("%.100q is no file or too large (%d bytes)", h.Name, h.Size)
	}
	b := make([]byte, h.Size)
	if _, err := io.ReadFull(r.tar, b); err != nil && (h.Size > 0 || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	return b, nil
}

// walkArchive calls each with each file, in archive order, and stops at its first error. The checksum comes at
// the end, so discard all files if it returns an error.
func walkArchive(from io.Reader, each func(cni.File) error) error {
	r, a, err := openArchive(from)
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
	// gzip compares its checksum at its end, which is after the padding that follows the end of the tar file.
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
func (r archiveReader) content(f *cni.File) error {
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
