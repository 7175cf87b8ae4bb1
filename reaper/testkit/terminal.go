package testkit

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal makes a pair of pseudo terminals of so many columns, pts(4): what is written to tty can be
// read from screen. The caller closes tty, and screen ends then.
func Terminal(tb testing.TB, columns int) (screen, tty *os.File) {
	tb.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		Skip(tb, "this needs terminals: cannot open /dev/ptmx: ", err)
	}
	screen = os.NewFile(uintptr(fd), "/dev/ptmx")
	tb.Cleanup(func() { _ = screen.Close() })
	Must(tb, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	// By the master's own instance of devpts, wherever that is mounted, ioctl_tty(2).
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		Skip(tb, "this needs terminals: ", errno)
	}
	Must(tb, unix.IoctlSetWinsize(int(peer), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)}))
	return screen, os.NewFile(peer, "tty")
}

// Shown is what a terminal of endless length shows after text was written to it, without the
// blanks at the ends. It knows the escapes that the progress line is made of, and colours. A line that
// would wrap is a fault.
func Shown(tb testing.TB, text string, columns int) string {
	tb.Helper()
	lines, row, col := [][]rune{nil}, 0, 0
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[A"):
			row, text = max(row-1, 0), text[3:]
			continue
		case strings.HasPrefix(text, "\x1b[K"):
			lines[row], text = lines[row][:min(col, len(lines[row]))], text[3:]
			continue
		case strings.HasPrefix(text, "\x1b[J"):
			lines, text = lines[:row+1], text[3:]
			lines[row] = lines[row][:min(col, len(lines[row]))]
			continue
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexByte(text, 'm')
			if end < 0 {
				tb.Fatalf("an escape that is not known: %.20q", text)
			}
			text = text[end+1:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\r':
			col = 0
		case '\n':
			if row, col = row+1, 0; row == len(lines) {
				lines = append(lines, nil)
			}
		default:
			for len(lines[row]) <= col {
				lines[row] = append(lines[row], ' ')
			}
			lines[row][col] = r
			if col++; col > columns {
				tb.Errorf("a line wraps at %d columns: %s", columns, string(lines[row]))
			}
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
