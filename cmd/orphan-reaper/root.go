package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/tracing"
)

// The exit codes.
const (
	codeFailed   = 1
	codeUsage    = 2 // wrong usage or configuration
	codeOperator = 3 // done, and an operator is needed
)

// failure is an error with its exit code, and what to do about it. Without an error nothing is printed.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef returns an error in how the program was called.
func usagef(hint, format string, args ...any) error {
	return &failure{codeUsage, fmt.Errorf(format, args...), hint}
}

// failf returns a failure with a hint on what to do.
func failf(hint, format string, args ...any) error {
	return &failure{codeFailed, fmt.Errorf(format, args...), hint}
}

// needs returns the exit code 3 if an operator is needed.
func needs(operator bool) error {
	if !operator {
		return nil
	}
	return &failure{code: codeOperator}
}

// app is one call of the program.
type app struct {
	in          io.Reader
	out, stderr io.Writer
	format      string // --output
	began       bool   // a command has begun: an error before is one of usage
}

// patience is how long a command may take to end after a signal: a moved pod is asked about once more.
const patience = 9 * time.Second

// run runs the program and returns its exit code. A signal ends every command; a second one kills the program.
func run(args []string, in io.Reader, out, stderr io.Writer) int {
	// A reader that ends early (| head) must not kill us in the middle of a change: with a handler a write returns EPIPE.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	late := make(chan struct{})
	context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(patience, func() { close(late) })
	})
	a := &app{in: in, out: out, stderr: stderr}
	log := audit.NewLog(stderr, slog.LevelWarn)
	ctx, sent, err := tracing.Start(ctx, version(), log)
	if err != nil {
		log.Warn("nothing is traced", slog.Any("error", err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		sent(ctx)
	}()
	root := newRoot(a)
	root.SetArgs(args)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	select {
	case err := <-ended:
		return a.exit(err)
	case <-late: // something hangs in the kernel; a kill loses nothing
		return a.exit(context.Canceled)
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use: "orphan-reaper", Short: "Remove the directories of orphaned pods, safely", Version: version(),
		Long: `orphan-reaper removes the directories that dead pods left on a Kubernetes node.
It moves only pods that the running kubelet reports as orphans, to quarantine
first, and records what it removed, what it kept, and why.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 done and an
operator is needed.`,
		Example: `  orphan-reaper doctor       what the kubelet reports, and what to do
  orphan-reaper scan         every pod directory, and why it is kept
  orphan-reaper explain UID  one pod: what was read, and what to do`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.began = true },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("orphan-reaper {{.Version}}\n")
	root.AddCommand(
		newDoctorCommand(a), newScanCommand(a), newExplainCommand(a), newSweepCommand(a), newRunCommand(a), newUnmountCommand(a),
		newQuarantineCommand(a), newFleetCommand(a), newParseCommand(a), newVersionCommand(a),
		newConfigCommand(settings),
	)
	config.AddFlags(root.PersistentFlags())
	// Else the help of each command ends with all settings.
	usage, end := root.UsageTemplate(), "{{if .HasAvailableInheritedFlags}}"
	if before, after, ok := strings.Cut(usage, end); ok {
		_, after, _ = strings.Cut(after, "{{end}}")
		root.SetUsageTemplate(before + end + `

"{{.Root.CommandPath}} --help" lists the flags of the settings.{{end}}` + after)
	}
	return root
}

// newGroup returns a command that has only subcommands.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef(cmd.CommandPath()+" --help lists its commands", "no command was given")
		},
	}
	group.AddCommand(commands...)
	return group
}

// addOutput adds the flag -o to a command.
func (a *app) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.format, "output", "o", "text", "text or json")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"text", "json"}, a.format) {
			return usagef("-o text or -o json", "%q is no output format", a.format)
		}
		return run(cmd, args)
	}
}

// print writes v as JSON, or calls text.
func (a *app) print(v any, text func(io.Writer) error) error {
	if a.format != "json" {
		return text(a.out)
	}
	return show.JSON(a.out, v)
}

// exit prints an error with its hint, and returns the exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*failure](err)
	switch {
	case !ok && !a.began:
		f = &failure{codeUsage, err, "orphan-reaper --help"}
	case !ok:
		f = &failure{codeFailed, err, hintFor(err)}
	}
	if f.err == nil {
		return f.code
	}
	if errors.Is(err, context.Canceled) {
		f.err, f.hint = errors.New("interrupted"), ""
	}
	for line := range strings.Lines(f.err.Error()) { // joined errors have a line each
		_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: error: %s\n", bounded.Text(strings.TrimSuffix(line, "\n")))
	}
	if f.hint != "" {
		_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: hint: %s\n", f.hint)
	}
	return f.code
}

// hintFor returns the hint for an error of the system.
func hintFor(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "run it as root"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some MiB on that disk, and run the command again"
	}
	return ""
}
