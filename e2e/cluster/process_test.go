package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// process is one program that the suite started. Its output goes to a file.
type process struct {
	name string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

func logFile(name string) string { return filepath.Join(place, "logs", name+".log") }

// launch starts a program, and ends it when the test does.
func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, args: args}
	p.start(t)
	t.Cleanup(p.kill)
	return p
}

// start starts it, for the first time or again.
func (p *process) start(t *testing.T) {
	t.Helper()
	mkdir(t, filepath.Dir(logFile(p.name)))
	f, err := os.OpenFile(logFile(p.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd, done := exec.Command(p.args[0], p.args[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + place}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends it as a crash would. It may have ended before.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail returns the end of its output.
func (p *process) tail() string { return tailOf(logFile(p.name)) }

func tailOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
