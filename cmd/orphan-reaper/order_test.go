package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// terminal returns a terminal, and the end at which an operator types (pts(4)).
func terminal(t *testing.T) (tty, keys *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testkit.Skip(t, "cannot make a terminal: ", err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	must(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	must(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return tty, keys
}

// TestAsk: only the whole word is a yes.
func TestAsk(t *testing.T) {
	tty, keys := terminal(t)
	for answer, agreed := range map[string]bool{"purge": true, "": false, "y": false, "yes": false, "purg": false, "no purge": false} {
		_, err := keys.WriteString(answer + "\n")
		must(t, err)
		var stderr bytes.Buffer
		if err := (&app{in: tty, stderr: &stderr}).ask("Remove it?", "purge"); (err == nil) != agreed {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
