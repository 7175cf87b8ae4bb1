package e2e

import (
	"bytes"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// process is a program started by the suite. Its output goes to a file.
type process struct {
	kit.Process

	name string
}

// launch starts a program in a process group of its own: Ctrl-C ends only the suite, which then ends the others in
// order.
func launch(t *testing.T, name, log string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET=", "JOURNAL_STREAM=")
	return &process{kit.Start(t, log, cmd), name}
}

func (p *process) signal(s unix.Signal) { _ = p.Cmd.Process.Signal(s) }

// end stops the program by SIGTERM, then by SIGKILL. It may have ended before.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.signal(unix.SIGCONT)
	p.signal(unix.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(30 * time.Second):
		t.Errorf("%s did not stop within 30 s of SIGTERM", p.name)
		p.Kill()
	}
}

// size returns a position in its output, for since.
func (p *process) size() int64 {
	st, err := os.Stat(p.Log)
	if err != nil {
		return 0
	}
	return st.Size()
}

// since returns the complete lines of its output after the mark.
func (p *process) since(mark int64) []string {
	f, err := os.Open(p.Log)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(f, mark, math.MaxInt64-mark))
	if err != nil {
		return nil
	}
	if b = b[:bytes.LastIndexByte(b, '\n')+1]; len(b) == 0 {
		return nil // not one empty line, which would advance the reader
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// Short names of what the suites share.
var (
	eventually = kit.Eventually
	throughout = kit.Throughout
	missing    = kit.Missing
	mkdir      = kit.Mkdir
	exists     = kit.Exists
)

// must runs a command to its end.
func must(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
