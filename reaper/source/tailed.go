package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// maxStep bounds the bytes read before names and watches are checked again.
const maxStep = 64 << 20

var (
	errNotRegular = errors.New("not a regular file")
	errTruncated  = errors.New("the file was truncated")
)

// tailed is one open file that is read forward.
type tailed struct {
	file   *os.File
	info   os.FileInfo // when it was opened or rewound
	blocks *parsers.Blocks
	recent recent
	now    func() time.Time

	mu     sync.Mutex
	prefix []byte // the first maxPrefix bytes, fewer while the file is shorter
	done   int64  // the beginning of the first line that was not sent
}

// openTailed opens a regular file at its beginning. It opens the file by O_PATH first, which has no side effect, and for
// reading only if it is a file on a disk.
func openTailed(path string, now func() time.Time) (*tailed, error) {
	found, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }() // an O_PATH descriptor
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(found.Fd()), &fs); err != nil {
		return nil, &os.PathError{Op: "fstatfs", Path: path, Err: err}
	}
	if !info.Mode().IsRegular() || madeByKernel(&fs) {
		return nil, &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	file, err := os.OpenFile(descriptor(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t := &tailed{file: file, info: info, now: now}
	t.begin(0)
	if _, err := t.same(0); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// descriptor returns the path by which the kernel opens an open file again.
func descriptor(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// madeByKernel reports whether the kernel generates the files of a file system. Reading /proc/kmsg, which is a regular file
// by its mode, takes the kernel's messages from syslogd, and waits forever (proc_kmsg(5)).
func madeByKernel(fs *unix.Statfs_t) bool {
	switch uint32(fs.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
		unix.BINFMTFS_MAGIC, unix.NSFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC:
		return true
	}
	return false
}

// deleted reports whether the file has no name any more. While it is open, its space is not freed.
func (t *tailed) deleted() bool {
	info, err := t.file.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

func (t *tailed) close() { _ = t.file.Close() }

// same reports whether the file still has its prefix and at least end bytes, and extends the prefix. It is called after a
// block is read and before it is used.
func (t *tailed) same(end int64) (bool, error) {
	info, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() < end {
		return false, nil
	}
	var buf [maxPrefix]byte
	n, err := t.file.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if !bytes.HasPrefix(buf[:n], t.prefix) {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > len(t.prefix) {
		t.prefix = bytes.Clone(buf[:n])
	}
	return true, nil
}

// begin sets where to read on: the offset of the beginning of a line.
func (t *tailed) begin(offset int64) {
	t.blocks = parsers.NewBlocks(true, offset)
	t.recent = recent{marks: []mark{{t.now(), max(0, offset-before)}}, last: [3]int64{-1, -1, -1}}
	t.setDone(offset)
}

// rewind starts again at the beginning of the file.
func (t *tailed) rewind() {
	t.begin(0)
	t.recent.settled = true // the new content is young
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prefix = nil
	if info, err := t.file.Stat(); err == nil {
		t.info = info
	}
}

func (t *tailed) setDone(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = offset
}

// drain reads t to its end, or to maxStep, and sends the lines that may be sightings. more reports that the end has not been
// reached. errTruncated means that the file has new content, of which nothing was used.
func (f *File) drain(ctx context.Context, t *tailed, lines chan<- parsers.Line) (more bool, err error) {
	t.recent.mark(t.now(), t.blocks.Whole())
	for limit := t.blocks.Next() + maxStep; t.blocks.Next() < limit; {
		n, readErr := t.file.ReadAt(t.blocks.Room(), t.blocks.Next())
		atEnd := errors.Is(readErr, io.EOF)
		if readErr != nil && !atEnd {
			return false, fmt.Errorf("cannot read the log: %w", readErr)
		}
		ok, err := t.same(t.blocks.Next() + int64(n))
		if err != nil {
			return false, fmt.Errorf("cannot read the log: %w", err)
		}
		if !ok {
			return false, errTruncated
		}
		for l := range t.blocks.Lines(n) {
			// If a file is truncated, a writer that does not append leaves a hole of NULs.
			text := bytes.Clone(bytes.TrimLeft(l.Text, "\x00"))
			line := parsers.Line{Text: text, Source: f.path, CatchUp: l.End <= t.info.Size(), Whole: !l.Cut && t.whole(l)}
			if err := send(ctx, lines, line); err != nil {
				return false, err
			}
			t.setDone(l.End)
		}
		t.setDone(t.blocks.Whole())
		if atEnd {
			t.markEnd()
			return false, nil
		}
	}
	return true, nil
}

// position returns the position in the file.
func (t *tailed) position() FilePosition {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := FilePosition{Offset: t.done, Length: len(t.prefix), Fingerprint: fingerprint(t.prefix)}
	if st, ok := t.info.Sys().(*syscall.Stat_t); ok {
		p.Dev, p.Inode = st.Dev, st.Ino
	}
	return p
}

// FilePosition is a position in one file.
type FilePosition struct {
	Dev    uint64 `json:"dev"`
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"` // the beginning of the first line that was not received
	// Fingerprint is the SHA-256 of the file's first Length bytes, up to 1,024.
	Length      int    `json:"length"`
	Fingerprint string `json:"fingerprint"`
}

// maxPrefix is how much of a file's beginning is compared. Log lines begin with a time, so already the first
// line of another file differs.
const maxPrefix = 1024

func fingerprint(prefix []byte) string {
	sum := sha256.Sum256(prefix)
	return hex.EncodeToString(sum[:])
}

// matches reports whether t is the file of the position, or an editor's copy of it: another inode with the fingerprint of
// maxPrefix bytes. Device numbers do not count, since they change over a reboot.
func (p FilePosition) matches(t *tailed) bool {
	if p.Offset < 0 || p.Offset > t.info.Size() || p.Length < 0 || p.Length > len(t.prefix) {
		return false
	}
	if fingerprint(t.prefix[:p.Length]) != p.Fingerprint {
		return false
	}
	st, ok := t.info.Sys().(*syscall.Stat_t)
	return ok && p.Inode == st.Ino || p.Length == maxPrefix
}
