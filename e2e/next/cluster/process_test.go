package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// process is a program started by the suite. Its output goes to a file.
type process struct {
	kit.Process

	name string
	args []string
}

func logFile(name string) string { return filepath.Join(place, "logs", name+".log") }

// launch starts a program, and ends it when the test does.
func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, args: args}
	p.start(t)
	t.Cleanup(func() { p.Kill() })
	return p
}

// start starts the program, also again.
func (p *process) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + place}
	p.Process = kit.Start(t, logFile(p.name), cmd)
}
