package testkit

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// WaitForZombie waits for the end of a child and leaves it unreaped.
func WaitForZombie(t *testing.T, pid int) {
	t.Helper()
	WaitFor(t, pid, unix.WEXITED|unix.WNOWAIT)
}

// WaitFor waits for a child to end or, with WSTOPPED, to have stopped: a signal is only
// asked for when kill(2) returns.
func WaitFor(t *testing.T, pid, what int) {
	t.Helper()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, what, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}
