package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Process is a program that a suite has started. Its output goes to a file.
type Process struct {
	Log  string
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended
}

// Start starts the program. Appending is how a log is written: a suite may write lines beside it.
func Start(t *testing.T, log string, cmd *exec.Cmd) Process {
	t.Helper()
	Mkdir(t, filepath.Dir(log))
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := Process{Log: log, Cmd: cmd, Done: make(chan struct{})}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	return p
}

// Running reports whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Kill ends it as a crash would. It may have ended before.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Done
}

// Tail returns the last lines of its output, for a failure.
func (p *Process) Tail(n int) string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
