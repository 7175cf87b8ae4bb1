package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// touched are the events of a changed file or directory; IN_CLOSE_WRITE is the end of every opening for
// writing, even if nothing was written (inotify(7)).
const touched = unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_DELETE_SELF | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

var changes = []struct {
	bit  uint32
	text string
}{
	{unix.IN_CREATE, "was made"},
	{unix.IN_MODIFY, "was written to"},
	{unix.IN_CLOSE_WRITE, "was opened for writing"},
	{unix.IN_ATTRIB, "has other attributes"},
	{unix.IN_DELETE, "was removed"},
	{unix.IN_DELETE_SELF, "was removed"},
	{unix.IN_MOVED_FROM, "was moved away"},
	{unix.IN_MOVED_TO, "was moved here"},
}

func (m *machine) watch() (err error) {
	if m.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return err
	}
	return below(func(path string) error {
		wd, err := unix.InotifyAddWatch(m.inotify, path, touched|unix.IN_ONLYDIR)
		if err == nil {
			m.watched[int32(wd)] = path
		}
		if err == unix.ENOTDIR {
			return nil
		}
		return err
	})
}

// readWatch adds the kernel's events. The queue holds 16,384 of them, and an event reports its overflow.
func (m *machine) readWatch() {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(m.inotify, buf)
		if err != nil || n <= 0 {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask, length := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
			b = b[unix.SizeofInotifyEvent+length:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				m.note("more was done than the kernel could report")
			}
			for _, w := range changes {
				if mask&w.bit != 0 {
					m.note(fmt.Sprintf("%s %s", filepath.Join(m.watched[wd], name), w.text))
				}
			}
		}
	}
}
