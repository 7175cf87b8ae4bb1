package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// cli is one call of the program: its streams, its environment and its flags.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	person         app.Person

	configFile   string              // --config
	output       string              // --output
	given        map[string][]string // the settings' flags as they were given, by flag
	printedFlags ui.Given            // see givenFlags
	flagsOnce    sync.Once           // sets it
	quiet        bool                // --quiet
	verbose      bool                // --verbose
	helpErr      error               // of writing a help page

	stopSignals, stopFollowing func()
	abandoned                  chan struct{} // closed if a command does not end after a signal; nil if nothing waits for that
}

// catchSignals makes SIGINT and SIGTERM cancel ctx, so that a change to the disk is finished or undone first; a second signal
// kills. A command that changes nothing and does not end hangs in a file system, and is abandoned.
func (a *cli) catchSignals(ctx context.Context) context.Context {
	ctx, changes := app.WithChanges(ctx)
	ctx, a.stopSignals = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		a.stopSignals()
		time.AfterFunc(signalPatience, func() {
			if !changes.Load() && a.abandoned != nil {
				close(a.abandoned)
			}
		})
	})
	return ctx
}

// signalPatience is how long a command may take to end after a signal.
const signalPatience = 2 * time.Second

// runAs runs the program for an operator and returns its exit code. Tests call it, too.
func runAs(person app.Person, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	// A reader that ends early (| head) must not kill us in the middle of a change: with a handler a write returns EPIPE.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)

	a := &cli{
		stdin: stdin, stdout: stdout, stderr: stderr, env: env, person: person,
		given: map[string][]string{}, stopSignals: func() {}, stopFollowing: func() {}, abandoned: make(chan struct{}),
	}
	a.person.Stderr = stderr
	a.person.Commands = func(text string) string { return a.givenFlags().In(text) }
	root := newRootCommand(a)
	root.SetArgs(args)
	abandoned, err := a.await(func() error { return root.ExecuteContext(context.Background()) })
	if abandoned { // the command still uses a
		_, _ = fmt.Fprintln(stderr, "orphan-reaper: error: interrupted")
		return exit.FailedCode
	}
	a.stopFollowing()
	a.stopSignals()
	err = cmp.Or(err, a.helpErr)
	code := exit.Code(err)
	if code != exit.DoneCode && code != exit.AttentionCode {
		a.printError(err)
	}
	return code
}

// await runs a command until it ends or is abandoned.
func (a *cli) await(command func() error) (abandoned bool, err error) {
	ended := make(chan error, 1)
	go func() { ended <- command() }()
	select {
	case err = <-ended:
		return false, err
	case <-a.abandoned:
		return true, nil
	}
}

// hintFor returns the hint of an error: its own, or one for a missing permission or a full disk. If root lacks a permission,
// the cause is another one.
func hintFor(err error, own *exit.Error, root bool) string {
	switch {
	case own != nil && own.Hint != "":
		return own.Hint
	case errors.Is(err, fs.ErrPermission) && !root:
		return "run it as root"
	case (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && !ofOutput(err):
		return "free some MiB on that disk, and run the command again: it then removes dead pods"
	}
	return ""
}

// ofOutput reports whether the error is of a write to stdout.
func ofOutput(err error) bool {
	path, ok := errors.AsType[*fs.PathError](err)
	return ok && path.Path == os.Stdout.Name()
}

// printError prints an error and its hint. Each of several joined errors has a line.
func (a *cli) printError(err error) {
	own, _ := errors.AsType[*exit.Error](err)
	if own != nil && own.Err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	var b strings.Builder
	given := a.givenFlags()
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(&b, "orphan-reaper: error: %s\n", given.In(clean.Text(strings.TrimSuffix(line, "\n"))))
	}
	if hint := hintFor(err, own, os.Geteuid() == 0); hint != "" {
		fmt.Fprintf(&b, "orphan-reaper: hint: %s\n", given.In(hint))
	}
	_, _ = io.WriteString(a.stderr, b.String())
}

// config returns the configuration of this call. A daemon calls it again to reload.
func (a *cli) config(ctx context.Context) (config.Config, error) {
	cfg, err := config.Load(ctx, a.input())
	if a.quiet {
		cfg.LogLevel = "error"
	}
	return cfg, err
}

// nodeConfig is config for a command that uses the kubelet's root directory. A missing directory is an error: it would
// look like an empty one.
func (a *cli) nodeConfig(ctx context.Context) (config.Config, error) {
	cfg, err := a.config(ctx)
	if err == nil {
		err = app.RootThere(cfg)
	}
	return cfg, err
}

// viewContext returns what views show besides the result.
func (a *cli) viewContext(cfg config.Config) ui.Context {
	return ui.Context{
		Now: app.Now(), Hold: cfg.Hold, Confirm: cfg.Confirm, Retention: cfg.Retention,
		Place:   ui.Place{PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir, Node: app.NodeName(cfg)},
		Observe: cfg.Observe(),
	}
}

// lookContext is viewContext with the daemon and the unlisted entries that a look found.
func (a *cli) lookContext(cfg config.Config, s *app.Survey) ui.Context {
	c := a.viewContext(cfg)
	c.Daemon, c.Unlisted = s.Daemon, s.Unlisted
	return c
}

func (a *cli) printer(w io.Writer) *ui.Printer {
	p := ui.NewPrinter(w, a.env)
	p.Given = a.givenFlags()
	return p
}

// givenFlags returns the flags that printed commands carry. The file is read once, also where the daemon reads it again.
func (a *cli) givenFlags() ui.Given {
	a.flagsOnce.Do(func() { a.printedFlags = ui.Given(a.input().CommandLine()) })
	return a.printedFlags
}

func (a *cli) input() config.Input {
	return config.Input{File: a.configFile, Usual: config.DefaultFile, Given: a.given, Discover: app.DiscoverRoot}
}

func (a *cli) json() bool { return a.output == "json" }

// write writes v as JSON, or calls text.
func (a *cli) write(v any, text func(*ui.Printer)) error {
	p := a.printer(a.stdout)
	if a.json() {
		return p.JSON(v)
	}
	text(p)
	return p.Flush()
}

// withProgress adds --quiet and --verbose to a command, and notes on its progress.
func (a *cli) withProgress(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "show no progress and no notes, only the answer and errors")
	cmd.Flags().BoolVarP(&a.verbose, "verbose", "v", false, "log on stderr what each phase did and its duration")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.quiet && a.verbose {
			return exit.Usagef("", "give either --quiet or --verbose")
		}
		if !a.quiet {
			var work *progress.Work
			work, a.stopFollowing = ui.Follow(a.stderr, func() time.Time { return app.Now().Wall }, a.verbose)
			if work != nil {
				cmd.SetContext(progress.With(cmd.Context(), work))
			}
		}
		return inner(cmd, args)
	}
	return cmd
}
