package nodetest

import (
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/program"
)

func TestMain(m *testing.M) {
	Main(program.Main)
	os.Exit(m.Run())
}

// TestCommand runs a command on a node.
func TestCommand(t *testing.T) {
	n := New(t)
	cmd := n.Command(t, "web-0 a35b97e0-1f4d-4b62-9e83-c8d70a12f504 living\n", []string{"--log", "syslog"}, "sh", "-c", `ls "$NODE_PODS"; echo "$OR_FLAGS"; exit 9`)
	out, _ := cmd.CombinedOutput()
	SkipRefused(t, string(out))
	if text := string(out); cmd.ProcessState.ExitCode() != 9 || !strings.HasPrefix(text, "a35b97e0-1f4d-4b62-9e83-c8d70a12f504\n") || !strings.Contains(text, n.Dir) {
		t.Errorf("exit code %d, %s", cmd.ProcessState.ExitCode(), text)
	}
}
