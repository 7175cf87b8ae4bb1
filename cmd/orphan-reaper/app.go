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

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/wire"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// app is one call of the program: its streams, its environment and what it can do.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	deps           deps

	configFile  string              // --config
	output      string              // --output
	showVersion bool                // --version
	given       map[string][]string // the settings' flags as they were given, by flag

	stopSignals func()
}

// catchSignals lets SIGINT and SIGTERM end ctx, so that a change to the disk is finished
// or undone first; a second signal kills.
func (a *app) catchSignals(ctx context.Context) context.Context {
	ctx, a.stopSignals = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, a.stopSignals)
	return ctx
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
	code := exit.Code(err)
	if code != exit.DoneCode && code != exit.AttentionCode {
		a.complain(err)
	}
	return code
}

// hintFor is the hint that the error carries. Where it has none and a right is missing, root
// has it; what root may not do has other causes.
func hintFor(err error, s *exit.Error, root bool) string {
	switch {
	case s != nil && s.Hint != "":
		return s.Hint
	case errors.Is(err, fs.ErrPermission) && !root:
		return "run it as root"
	}
	return ""
}

// complain writes an error and its hint, a line each: several errors that were joined
// have a line each.
func (a *app) complain(err error) {
	s, _ := errors.AsType[*exit.Error](err)
	if s != nil && s.Err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(&b, "orphan-reaper: error: %s\n", clean.Text(strings.TrimSuffix(line, "\n")))
	}
	if hint := hintFor(err, s, os.Geteuid() == 0); hint != "" {
		fmt.Fprintf(&b, "orphan-reaper: hint: %s\n", hint)
	}
	_, _ = io.WriteString(a.stderr, b.String()) // There is nobody left to tell.
}

// config makes the configuration of this call. A daemon calls it again to reload.
func (a *app) config(ctx context.Context) (config.Config, error) {
	return config.Load(ctx, config.Input{File: a.configFile, Usual: a.deps.configFile, Given: a.given, Discover: a.deps.discover})
}

// viewContext is what views show beside what was found.
func (a *app) viewContext(cfg config.Config) view.Context {
	return view.Context{
		Now: a.deps.now(), Confirm: cfg.Confirm, Retention: cfg.Retention, PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir,
		Node: a.deps.nodeName(cfg), Observe: cfg.Observe(),
	}
}

func (a *app) printer(w io.Writer) *view.Printer { return view.NewPrinter(w, a.env) }

// json reports whether the output is JSON.
func (a *app) json() bool { return a.output == "json" }

// writeJSON writes a value as JSON that a person can read, too.
func (a *app) writeJSON(v any) error { return a.printer(a.stdout).JSON(v) }

// write writes v as JSON or, for a person, what text writes.
func (a *app) write(v any, text func(*view.Printer)) error {
	if a.json() {
		return a.writeJSON(v)
	}
	p := a.printer(a.stdout)
	text(p)
	return p.Flush()
}

// process is what the wiring needs to know of this process.
func (a *app) process() wire.Process {
	return wire.Process{Version: version().Version, Stderr: a.stderr}
}
