package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// A role that testkit does not have is a socket to serve CRI at.
//
// This is an init rather than a test, so that the program may have any command line.
func init() {
	role := os.Getenv(testkit.EnvProcess)
	if role == "" {
		return
	}
	s, err := fakecri.Start(context.Background(), role, fakecri.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	testkit.WaitToEnd()
}

// TestAskRuntimeStoppedProcess asks a runtime that is stopped in its tracks: the kernel
// takes the connection and the request for it, and no answer ever comes.
func TestAskRuntimeStoppedProcess(t *testing.T) {
	self, err := os.Executable()
	testkit.Must(t, err)
	socket := filepath.Join(t.TempDir(), "s")
	cmd := testkit.StartProcess(t, socket, self, "runtime")
	r := newReader(t, "unix://"+socket)
	if a := r.Ask(t.Context()); a.Lists.Truth != policy.No {
		t.Fatalf("before: %+v", a)
	}
	testkit.Must(t, cmd.Process.Signal(syscall.SIGSTOP))
	// A signal is only asked for when kill(2) returns.
	testkit.Must(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED, nil))
	r.Guard.Patience = 100 * time.Millisecond
	for range 3 {
		a := r.Ask(t.Context())
		if a.Lists.Truth != policy.Unknown || !strings.Contains(a.Lists.Detail, "no answer in time") {
			t.Errorf("stopped: %+v", a)
		}
	}
	wantNoGRPC(t)

	testkit.Must(t, cmd.Process.Signal(syscall.SIGCONT))
	r.Guard.Patience = time.Minute
	if a := r.Ask(t.Context()); a.Lists.Truth != policy.No {
		t.Errorf("after: %+v", a)
	}
}
