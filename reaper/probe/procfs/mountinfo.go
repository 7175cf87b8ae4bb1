package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
)

// MountLine is a line of mountinfo, cut and not parsed: proc_pid_mountinfo(5).
type MountLine struct {
	ID, Parent, Dev, Root, Target, Rest []byte
	// Cut says that Root or Target is longer than is kept, and Later that this is a further part of
	// the same line: all is as before but Rest.
	Cut, Later bool
	fsType     []byte
}

// What a line may take. A process chooses how long a path or the options are: each path of 4,096
// bytes is kept whole, with all of its bytes escaped.
const (
	lineBlock   = 64 << 10
	longestPath = 16 << 10
	restOverlap = 256
)

var errMountLine = errors.New("a line without root and mount point")

// EachMount calls do for each line, which is valid until do returns. It reads block by block and
// holds one of them.
func EachMount(from io.Reader, do func(l *MountLine) error) error {
	in := bufio.NewReaderSize(from, lineBlock)
	var held []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if held, err = longMount(in, append(held[:0], line...), do); err != nil {
				return err
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l, ok := CutMount(bytes.TrimSuffix(line, []byte{'\n'}))
		if !ok {
			return errMountLine
		}
		l.Cut = len(l.Root) > longestPath || len(l.Target) > longestPath
		if err := do(&l); err != nil {
			return err
		}
	}
}

// EachMountOf calls do for each line that a process shows.
func EachMountOf(dir, pid string, do func(l *MountLine) error) error {
	f, err := os.Open(dir + "/" + pid + "/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	return EachMount(f, do)
}

// CutMount cuts a whole line.
func CutMount(line []byte) (l MountLine, ok bool) {
	for _, field := range [...]*[]byte{&l.ID, &l.Parent, &l.Dev, &l.Root, &l.Target} {
		*field, line, ok = bytes.Cut(line, []byte{' '})
		if !ok || len(*field) == 0 {
			return l, false
		}
	}
	l.Rest = line
	return l, true
}

// longMount goes on with a line of which the beginning is held. Paths are cut, and the rest comes
// in parts that overlap. What it holds is given back, to be used again.
func longMount(in *bufio.Reader, held []byte, do func(l *MountLine) error) ([]byte, error) {
	var l MountLine
	var ends [5]int
	text, ended := bytes.Clone(held), false
	next := func() error {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		} else if err == nil || errors.Is(err, io.EOF) {
			ended, err = true, nil
		}
		text = append(text[:0], bytes.TrimSuffix(part, []byte{'\n'})...)
		return err
	}
	held = held[:0]
	for i, field := 0, 0; field < len(ends); {
		part, _, found := bytes.Cut(text, []byte{' '})
		keep := min(len(part), max(0, longestPath-(len(held)-i)))
		held, l.Cut = append(held, part[:keep]...), l.Cut || keep < len(part)
		if found {
			if len(held) == i {
				return held, errMountLine
			}
			text, ends[field], i = text[len(part)+1:], len(held), len(held)
			field++
			continue
		}
		if ended {
			return held, errMountLine
		}
		if err := next(); err != nil {
			return held, err
		}
	}
	from := 0
	for i, field := range [...]*[]byte{&l.ID, &l.Parent, &l.Dev, &l.Root, &l.Target} {
		*field, from = held[from:ends[i]:ends[i]], ends[i]
	}
	before := []byte(nil)
	for {
		l.Rest = append(before, text...)
		before = bytes.Clone(l.Rest[max(0, len(l.Rest)-restOverlap):])
		if !l.Later {
			l.fsType = bytes.Clone(l.FSType())
		}
		if err := do(&l); err != nil || ended {
			return held, err
		}
		l.Later = true
		if err := next(); err != nil {
			return held, err
		}
	}
}

// FSType is field 9, or nothing in a line that has none.
func (l *MountLine) FSType() []byte {
	if l.fsType == nil {
		_, rest, _ := bytes.Cut(l.Rest, []byte(" - "))
		l.fsType, _, _ = bytes.Cut(rest, []byte{' '})
	}
	return l.fsType
}

// Number is the mount ID.
func (l *MountLine) Number() (id uint64, ok bool) {
	for _, c := range l.ID {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = 10*id + uint64(c-'0')
	}
	return id, true
}
