package app

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// klogTail is how much of a log's end is searched for a line of klog.
const klogTail = 64 << 10

// klogClock dates the lines of a log file whose only time is klog's, which has neither year nor zone. The last
// klog line of the file is not older than the file's last change says, and the distance between two lines needs no zone.
type klogClock struct{ last, written time.Time }

// klogClockOf reads the end of a log file; the zero clock dates nothing.
func klogClockOf(path string) (c klogClock) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return c
	}
	defer closeQuietly(f)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return c
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-klogTail), klogTail))
	if err != nil {
		return c
	}
	for line := range bytes.Lines(tail) {
		if at, ok := parsers.KlogTime(line); ok {
			c.last, c.written = at, info.ModTime()
		}
	}
	return c
}

// date returns when a line was written, zero where that is not known.
func (c klogClock) date(line []byte) time.Time {
	at, ok := parsers.KlogTime(line)
	if !ok || c.written.IsZero() {
		return time.Time{}
	}
	before := c.last.Sub(at)
	if before < -24*time.Hour {
		before += 366 * 24 * time.Hour // of the year before; the year 0 is a leap year
	}
	return c.written.Add(-before)
}
