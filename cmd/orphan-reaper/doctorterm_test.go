package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// terminal makes a terminal of so many columns: what is written to tty can be read from the other end.
func terminal(t *testing.T, columns uint16) (screen io.Reader, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		testkit.Skip(t, "this needs a terminal: ", err)
	}
	t.Cleanup(func() { _ = master.Close() }) // only read
	fd := int(master.Fd())
	testkit.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testkit.Must(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testkit.Skip(t, "this needs a terminal: ", err)
	}
	testkit.Must(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24}))
	return master, tty
}

// TestDoctorTerminal: on a terminal there are colours unless NO_COLOR or TERM says otherwise, and they
// carry nothing: without them the text is that of a pipe. A narrow terminal gets narrow lines, and a wide one
// none that are too long to read.
func TestDoctorTerminal(t *testing.T) {
	_, piped, _ := call(t, "umount", "doctor")
	for _, c := range []struct {
		name, key, value string
		columns          uint16
		colour           bool
	}{
		{"a terminal", "", "", 80, true},
		{"a wide one", "", "", 200, true},
		{"NO_COLOR", "NO_COLOR", "1", 80, false},
		{"a dumb one", "TERM", "dumb", 80, false},
		{"a narrow one", "NO_COLOR", "1", 60, false},
	} {
		screen, tty := terminal(t, c.columns)
		text := make(chan string)
		go func() {
			b, _ := io.ReadAll(screen) // EIO once the other end is closed
			text <- string(b)
		}()
		env := func(key string) string { return map[string]string{"FAKE": "umount", c.key: c.value}[key] }
		if code := runWith(fakeDeps(env), []string{"doctor"}, strings.NewReader(""), tty, io.Discard, env); code != 3 {
			t.Errorf("%s: code %d", c.name, code)
		}
		testkit.Must(t, tty.Close())
		var got string
		select {
		case got = <-text:
		case <-time.After(10 * time.Second):
			t.Fatal("the terminal stays open")
		}
		got = strings.ReplaceAll(got, "\r\n", "\n")
		if strings.Contains(got, "\x1b[") != c.colour {
			t.Errorf("%s: %q", c.name, got)
		}
		for _, sgr := range []string{"0", "1", "2", "31", "32", "33"} {
			got = strings.ReplaceAll(got, "\x1b["+sgr+"m", "")
		}
		if c.columns == 80 && got != piped {
			t.Errorf("%s:\n%s", c.name, got)
		}
		for line := range strings.Lines(got) {
			if n := len([]rune(line)) - 1; n > int(min(c.columns, 110)) && !strings.HasPrefix(line, "    umount ") {
				t.Errorf("%s: %d columns: %s", c.name, n, line)
			}
		}
	}
}
