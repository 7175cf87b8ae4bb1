package audit

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestPriorities: journalctl -p warning shows the program's own warnings, since each line that journald reads from stderr
// begins with its priority. Values cannot begin a line of their own.
func TestPriorities(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(newPrioritized(&b, slog.LevelInfo)).With(slog.String("a", "b")).WithGroup("g")
	log.Error("e", slog.String("x", "y\n<0>z"))
	log.Warn("w")
	log.Info("i")
	log.Debug("d")
	const want = "<3>msg=e a=b g.x=\"y\\n<0>z\"\n<4>msg=w a=b\n<6>msg=i a=b\n"
	if b.String() != want {
		t.Errorf("%q, not %q", b.String(), want)
	}
}

// TestStderr: a terminal and a container get the time and the level, and no priority, whatever JOURNAL_STREAM is.
func TestStderr(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "1:2") // inherited from a unit, with another stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	log := NewLog(os.Stderr, slog.LevelInfo)
	os.Stderr = stderr
	log.Info("i")
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(read); err != nil || !bytes.HasPrefix(b, []byte("time=")) || !bytes.Contains(b, []byte("level=INFO")) {
		t.Errorf("%s %v", b, err)
	}
}
