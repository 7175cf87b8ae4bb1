package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// MountLine is a line of mountinfo, cut into fields and not parsed: proc_pid_mountinfo(5).
type MountLine struct {
	ID, Parent, Dev, Root, Target, Rest []byte

	Text []byte // the line
	// Cut reports that the line, Root or Target is longer than the limit. Root and Target may then end early or be missing.
	// Rest is complete or missing.
	Cut bool
}

// The limits of a line. A process chooses how long a path or the options are. A path of 4,096 bytes is
// kept even if every byte is escaped.
const (
	lineBlock   = 64 << 10
	longestPath = 16 << 10
)

var errMountLine = errors.New("a line without root and mount point")

// EachMount calls do for each line, which is valid until do returns. It reads block by block.
func EachMount(from io.Reader, do func(l *MountLine) error) error {
	in := bufio.NewReaderSize(from, lineBlock)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		var l MountLine
		if errors.Is(err, bufio.ErrBufferFull) {
			l, err = longMount(in, line)
		} else if err == nil || errors.Is(err, io.EOF) {
			l, err = cutMount(bytes.TrimSuffix(line, []byte{'\n'}))
			l.Cut = len(l.Root) > longestPath || len(l.Target) > longestPath
		}
		if err == nil {
			err = do(&l)
		}
		if err != nil {
			return err
		}
	}
}

// longMount reads the rest of a line that does not fit into a block. It keeps the first block and the last one or two.
// Usually only a path is so long: Rest is missing if part of the options may be left out.
func longMount(in *bufio.Reader, first []byte) (MountLine, error) {
	const mostOptions = 256 // the kernel alone writes fields 6 and 7
	text, from := bytes.Clone(first), 0
	for more := true; more; {
		part, err := in.ReadSlice('\n')
		if more = errors.Is(err, bufio.ErrBufferFull); err != nil && !more && !errors.Is(err, io.EOF) {
			return MountLine{}, err
		}
		if len(text) >= 3*lineBlock {
			text, from = append(text[:lineBlock], text[2*lineBlock:]...), lineBlock
		}
		text = append(text, part...)
	}
	text = bytes.TrimSuffix(text, []byte{'\n'})
	l, _ := cutMount(text[:lineBlock])
	l.Text, l.Rest, l.Cut = text, nil, true
	if at := bytes.Index(text, []byte(" - ")); at > from+mostOptions {
		_, l.Rest, _ = bytes.Cut(text[at-mostOptions:], []byte{' '})
	}
	return l, nil
}

// EachMountOf calls do for each line of a process's mountinfo.
func EachMountOf(dir, pid string, do func(l *MountLine) error) error {
	f, err := os.Open(dir + "/" + pid + "/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	return EachMount(f, do)
}

// cutMount cuts a complete line into fields.
func cutMount(line []byte) (MountLine, error) {
	l := MountLine{Text: line}
	for _, field := range [...]*[]byte{&l.ID, &l.Parent, &l.Dev, &l.Root, &l.Target} {
		var ok bool
		if *field, line, ok = bytes.Cut(line, []byte{' '}); !ok || len(*field) == 0 {
			return l, errMountLine
		}
	}
	l.Rest = line
	return l, nil
}

// Clone returns a copy that stays valid.
func (l *MountLine) Clone() MountLine {
	text := bytes.Clone(l.Text)
	c, _ := cutMount(text[:min(len(text), lineBlock)])
	if c.Text, c.Cut = text, l.Cut; l.Cut {
		c.Rest = bytes.Clone(l.Rest)
	}
	return c
}

// FSType returns field 9, empty in a line without it.
func (l *MountLine) FSType() []byte {
	_, rest, _ := bytes.Cut(l.Rest, []byte(" - "))
	fsType, _, _ := bytes.Cut(rest, []byte{' '})
	return fsType
}

// Number returns the mount ID.
func (l *MountLine) Number() (id uint64, ok bool) {
	for _, c := range l.ID {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = 10*id + uint64(c-'0')
	}
	return id, true
}

// FirstMount reads the first line of an open mountinfo, or as much of it as buf has room for. Two processes have the same
// mount ID there only if they share mount namespace and root. Unlike the link ns/mnt it needs no capability. The kernel
// formats only the lines that are read.
func FirstMount(fd int, buf []byte) ([]byte, error) {
	const usual = 512
	n := 0
	for n < len(buf) && !bytes.Contains(buf[:n], []byte{'\n'}) {
		more, err := beneath.Retry(func() (int, error) { return unix.Read(fd, buf[n:min(n+usual, len(buf))]) })
		if err != nil {
			return nil, err
		}
		if more == 0 {
			break
		}
		n += more
	}
	line, _, _ := bytes.Cut(buf[:n], []byte{'\n'})
	return line, nil
}

// FirstMountAt is FirstMount of a path.
func FirstMountAt(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return FirstMount(int(f.Fd()), make([]byte, lineBlock))
}
