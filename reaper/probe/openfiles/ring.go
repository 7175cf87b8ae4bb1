package openfiles

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// ringLink is what a descriptor of an io_uring links to.
const ringLink = "anon_inode:[io_uring]"

// A ring holds the files that were registered with it (io_uring_register(2)), whether they
// are open elsewhere or not. Its fdinfo names them (io_uring/fdinfo.c):
//
//	UserFiles:	2
//	    0: /data/file
//	UserBufs:	0
//
// Up to Linux 6.12 that is the last part of the path, cut off at some 32 bytes, which tells
// nothing. While the ring is busy the files are left out, from 6.16 on all of these lines.
var (
	ringFiles = []byte("\nUserFiles:\t")
	ringOther = []byte("\nUserBufs:")
)

const (
	ringTries   = 50
	biggestRing = 64 << 20 // for all rings of a look; one may have a million files
)

var errRingBusy = errors.New("an io_uring is busy, and does not tell which files it holds")

// ring follows up the files of one ring.
func (s *scan) ring(pid, fd string) error {
	name := pid + "/fdinfo/" + fd
	var busy error
	for range ringTries {
		text, err := s.ringText(name)
		if err != nil {
			return err
		}
		_, text, shown := bytes.Cut(text, ringFiles)
		text, _, _ = bytes.Cut(text, ringOther)
		count, files, _ := bytes.Cut(text, []byte{'\n'})
		switch {
		case len(files) > 0:
			s.ringHolds(pid, fd, files)
			return nil
		case !shown:
			busy = errRingBusy
		case string(count) == "0":
			return nil
		default:
			busy = nil // busy up to 6.15, or none of the places in its table has a file
		}
	}
	return busy
}

func (s *scan) ringText(name string) ([]byte, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat(s.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	text, err := beneath.ReadInto(fd, make([]byte, 0, 4096), 0, s.rings)
	s.rings -= int64(len(text))
	return text, err
}

func (s *scan) ringHolds(pid, fd string, files []byte) {
	var found [4]parsers.PodUID
	for line := range bytes.Lines(files) {
		_, path, ok := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(": "))
		if ok && len(s.wanted.InPath(found[:0], path)) > 0 {
			s.hint(link{process: pid}, procfs.Unescape(path), "a file of the io_uring "+fd)
		}
	}
}
