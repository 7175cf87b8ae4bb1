package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// TestExitCode: the code is that of the error that was wrapped, not of the wrapping.
func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errTest, 1},
		{exit.Usagef("", "x"), 2},
		{fmt.Errorf("cannot look: %w", exit.Usagef("", "x")), 2},
		{errors.Join(errTest, exit.Usagef("", "x")), 2},
		{exit.Attention(true), 3},
		{exit.Attention(false), 0},
		{exit.Failf("", "x"), 1},
	} {
		if got := exit.Code(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// TestComplain: a line for each error, cleaned of what the node put there, and the hint.
func TestComplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{exit.Attention(true), ""},
		{errTest, "orphan-reaper: error: the node is away\n"},
		{exit.Usagef("do this", "bad %q", "x"), "orphan-reaper: error: bad \"x\"\norphan-reaper: hint: do this\n"},
		{fmt.Errorf("cannot look: %w", exit.Failf("do this", "x")), "orphan-reaper: error: cannot look: x\norphan-reaper: hint: do this\n"},
		{errors.Join(errors.New("a"), errors.New("b\x1b[2J")), "orphan-reaper: error: a\norphan-reaper: error: b\\x1b[2J\n"},
	} {
		var out bytes.Buffer
		(&cli{stderr: &out}).complain(c.err)
		if out.String() != c.want {
			t.Errorf("%v: %q, want %q", c.err, out.String(), c.want)
		}
	}
}

// TestHintFor: who lacks a right is told that root has it; root itself is not.
func TestHintFor(t *testing.T) {
	denied := fmt.Errorf("cannot open the state directory: %w", fs.ErrPermission)
	for _, c := range []struct {
		name string
		err  error
		root bool
		want string
	}{
		{"denied to a user", denied, false, "run it as root"},
		{"denied to root", denied, true, ""},
		{"its own hint", exit.Failf("look there", "%w", denied), false, "look there"},
		{"another failure", fs.ErrNotExist, false, ""},
		{"a full disk", fmt.Errorf("cannot write x: %w", syscall.ENOSPC), true, "free some MiB on that disk, and run the command again: it then removes dead pods"},
		{"a full output", &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, true, ""},
		{"a full quota", fmt.Errorf("cannot write x: %w", syscall.EDQUOT), true, "free some MiB on that disk, and run the command again: it then removes dead pods"},
	} {
		s, _ := errors.AsType[*exit.Error](c.err)
		if got := hintFor(c.err, s, c.root); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
