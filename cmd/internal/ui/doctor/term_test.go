package doctor

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestDoctorTerminal: a terminal gets colours unless NO_COLOR or TERM disables them, and they carry no
// information: without them the text is that of a pipe. A narrow terminal gets narrow lines, and a wide one
// none that are too long to read.
func TestDoctorTerminal(t *testing.T) {
	_, piped := screen(t, doctored["umount"])
	for _, c := range []struct {
		name, key, value string
		columns          int
		colour           bool
	}{
		{"a terminal", "", "", 80, true},
		{"a wide one", "", "", 200, true},
		{"NO_COLOR", "NO_COLOR", "1", 80, false},
		{"a dumb one", "TERM", "dumb", 80, false},
		{"a narrow one", "NO_COLOR", "1", 60, false},
	} {
		master, tty := testkit.Terminal(t, c.columns)
		text := make(chan string)
		go func() {
			b, _ := io.ReadAll(master) // EIO once the other end is closed
			text <- string(b)
		}()
		env := func(key string) string { return map[string]string{c.key: c.value}[key] }
		if _, err := screenOf(doctored["umount"], env, tty); err != nil {
			t.Errorf("%s: %v", c.name, err)
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
			if n := len([]rune(line)) - 1; n > min(c.columns, 110) && !strings.HasPrefix(line, "    orphan-reaper ") {
				t.Errorf("%s: %d columns: %s", c.name, n, line)
			}
		}
	}
}
