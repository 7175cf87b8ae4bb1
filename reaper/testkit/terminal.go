package testkit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal opens a pseudo terminal, pts(4), with so many columns: what is written to tty can be read from screen. The caller
// closes tty, which ends screen.
func Terminal(tb testing.TB, columns int) (screen, tty *os.File) {
	tb.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		Skip(tb, "this needs terminals: cannot open /dev/ptmx: ", err)
	}
	screen = os.NewFile(uintptr(fd), "/dev/ptmx")
	tb.Cleanup(func() { _ = screen.Close() })
	Must(tb, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	// This needs no path of the devpts instance, see ioctl_tty(2).
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		Skip(tb, "this needs terminals: ", errno)
	}
	Must(tb, unix.IoctlSetWinsize(int(peer), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)}))
	return screen, os.NewFile(peer, "tty")
}
