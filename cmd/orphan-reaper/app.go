package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes of the command line's contract.
const (
	exitDone      = 0 // done, nothing left to say
	exitFailed    = 1
	exitUsage     = 2 // wrong usage or configuration
	exitAttention = 3 // done, and something is kept that a person should look at
)

// app is one call of the program: its streams, its environment and what it can do.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	deps           deps

	configFile string              // --config
	output     string              // --output
	given      map[string][]string // the settings' flags as they were given, by flag

	stopSignals func()
}

// catchSignals lets SIGINT and SIGTERM end ctx, so that a change to the disk is finished
// or undone first; a second signal kills.
func (a *app) catchSignals(ctx context.Context) context.Context {
	ctx, a.stopSignals = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, a.stopSignals)
	return ctx
}

// statusError ends the program with a code and, where err is set, a word.
type statusError struct {
	code int
	err  error
	hint string // what to do about it
}

// Error returns the word, which may be empty.
func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error behind the code.
func (e *statusError) Unwrap() error { return e.err }

// attention says by the exit code alone that a person should look at what is kept.
func attention(needed bool) error {
	if !needed {
		return nil
	}
	return &statusError{code: exitAttention}
}

// usagef is an error in how the program was called.
func usagef(hint, format string, args ...any) error {
	return &statusError{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// failf is a failure with a word on what to do.
func failf(hint, format string, args ...any) error {
	return &statusError{code: exitFailed, err: fmt.Errorf(format, args...), hint: hint}
}

// run is the program without the process around it.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	return runWith(realDeps(), args, stdin, stdout, stderr, env)
}

func runWith(d deps, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	// A reader that has seen enough (| head) must not kill us in the middle of a change:
	// with a handler in place a write gives EPIPE instead of the signal.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env, deps: d, given: map[string][]string{}, stopSignals: func() {}}
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	a.stopSignals()
	code := exitCode(err)
	if code != exitDone && code != exitAttention {
		a.complain(err)
	}
	return code
}

// exitCode gives each error its code: the one it carries, else 1.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.code
	}
	return exitFailed
}

// hintFor is the hint that the error carries. Where it has none and a right is missing, root
// has it; what root may not do has other causes.
func hintFor(err error, s *statusError, root bool) string {
	switch {
	case s != nil && s.hint != "":
		return s.hint
	case errors.Is(err, fs.ErrPermission) && !root:
		return "run it as root"
	}
	return ""
}

// complain writes an error and its hint, a line each: several errors that were joined
// have a line each.
func (a *app) complain(err error) {
	s, _ := errors.AsType[*statusError](err)
	if s != nil && s.err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(&b, "orphan-reaper: error: %s\n", clean(strings.TrimSuffix(line, "\n")))
	}
	if hint := hintFor(err, s, os.Geteuid() == 0); hint != "" {
		fmt.Fprintf(&b, "orphan-reaper: hint: %s\n", hint)
	}
	_, _ = io.WriteString(a.stderr, b.String()) // There is nobody left to tell.
}
