// Canary runs a command on a machine on which much can be lost: in a mount and a PID
// namespace of its own, with a kubelet's directory, networks with reserved addresses,
// network namespaces, a runtime, a journal, and a configuration and a state of orphan-reaper.
// It fails if the command has changed any of that, has opened a file there for writing, or
// has connected to the runtime or the journal.
//
// make test as root runs each package's tests with it: go test -exec. Tests that ran as root
// once deleted the addresses of a machine's own networks, since one directory was not set.
//
// It is in testdata, which ./... leaves out: it is no part of what is built and shipped.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	var code int
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = fmt.Errorf("usage: canary COMMAND [ARG...]")
	case os.Getpid() == 1 && os.Getenv(insideEnv) != "":
		code, err = inside(args)
	default:
		code, err = outside()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "canary:", err)
		code = 1
	}
	os.Exit(code)
}

// insideEnv marks the first process of the namespaces, and names a directory for it.
const insideEnv = "CANARY_INSIDE"

// outside starts this program again as the first process of namespaces of its own: what is
// mounted there, and what runs there, ends with it.
func outside() (code int, err error) {
	beneath, err := os.MkdirTemp("", "canary-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(beneath)) }() // with the namespaces all in it is gone
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+beneath)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("no mount and PID namespaces here: %w", err)
	}
	forward(cmd.Process.Pid)
	_ = cmd.Wait() // its state has the result
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, fmt.Errorf("cannot read how the command ended")
	}
	return codeOf(unix.WaitStatus(status)), nil
}

// forward passes signals on to the command: go test sends SIGQUIT for the stacks of a test that runs too long.
func forward(pid int) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGQUIT, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range signals {
			if s, ok := s.(syscall.Signal); ok {
				_ = unix.Kill(pid, s) // it may have ended
			}
		}
	}()
}

// inside makes the machine, runs the command on it, and checks the machine.
func inside(args []string) (code int, err error) {
	m, err := newMachine(os.Getenv(insideEnv))
	if err != nil {
		return 0, fmt.Errorf("cannot make the machine: %w", err)
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, insideEnv+"=") })
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, err
	}
	forward(pid)
	for {
		// The first process of a PID namespace is the parent of all that lose theirs.
		var status unix.WaitStatus
		done, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && err != unix.EINTR {
			return 0, err
		}
		if err == nil && done == pid {
			return codeOf(status), m.check()
		}
	}
}

func codeOf(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
