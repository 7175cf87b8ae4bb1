package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func newPurgeCommand(a *cli) *cobra.Command {
	var yes, all, force bool
	cmd := &cobra.Command{
		Use: "purge POD|ARCHIVE|--all", Short: "Permanently remove what lies in quarantine",
		Long: `Permanently remove what lies in quarantine: of one pod, or with --all of all
pods that are confirmed dead. That includes data that may belong to a user. You
cannot undo it.

The command asks first. Without a terminal it needs --yes. If more of a pod has
come into quarantine since the command showed it, the command removes nothing of
that pod. If a pod lives again, the pod may miss its data, so the command
removes nothing of it without --force.

With the name of an archive of CNI files, the command removes that archive.

` + entryArgHelp,
		Example: "  orphan-reaper quarantine purge 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n  orphan-reaper quarantine purge --all",
		Args: func(_ *cobra.Command, args []string) error {
			// Without the need for --all, an empty $UID in a shell would purge every pod.
			switch {
			case all && len(args) > 0:
				return exit.Usagef("", "give either --all or %s", strconv.Quote(args[0]))
			case !all && len(args) != 1:
				return exit.Usagef("orphan-reaper quarantine list shows them", "name one pod, one archive, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.purge(cmd.Context(), args, yes, force) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "purge every pod that is confirmed dead")
	cmd.Flags().BoolVar(&force, "force", false, "purge also a pod that lives again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *cli) purge(ctx context.Context, args []string, yes, force bool) error {
	if isArchive(args) {
		return a.purgeArchive(ctx, args[0], yes)
	}
	cfg, uid, entries, err := a.quarantined(ctx, args)
	if err != nil {
		return err
	}
	if uid != "" && len(entries) == 0 {
		last, done, err := doneBefore(cfg, uid, policy.KindRemoved)
		if err != nil {
			return err
		}
		return a.write(done, func(p *ui.Printer) { p.Printf("removed already, at %s: %s\n", human.When(last.At.Wall), uid) })
	}
	if uid == "" {
		entries = confirmed(entries)
	}
	if len(entries) == 0 {
		return a.write(ui.NewOutcomes(nil), func(p *ui.Printer) { p.Para("", "Nothing to purge: no pod in quarantine is confirmed dead.") })
	}
	if !yes {
		sum, shown := ui.PurgeSum(entries), func(p *ui.Printer) { p.Purging(entries, a.viewContext(cfg)) }
		if err := a.confirm(shown, "Permanently remove "+sum+"? This cannot be undone.", "purge", "remove "+sum); err != nil {
			return err
		}
	}
	outcomes, err := a.person.Purge(ctx, cfg, entries, force)
	return a.purged(outcomes, err)
}

// purged prints the results of a purge. An entry that was not removed is an error.
func (a *cli) purged(outcomes []policy.Outcome, err error) error {
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("cannot purge: %w", err))
	}
	for _, o := range outcomes {
		if o.Result != policy.Done && o.Result != policy.Gone {
			errs = append(errs, outcomeError("purge", o))
		}
	}
	return errors.Join(append(errs, a.write(ui.NewOutcomes(outcomes), func(p *ui.Printer) { p.PurgeDone(outcomes) }))...)
}

// confirmed leaves out pods with an entry that is not confirmed dead, such as a conflict: those are purged only by name. A
// half purged entry was confirmed.
func confirmed(entries []policy.EntryState) []policy.EntryState {
	open := map[parsers.PodUID]bool{}
	for _, e := range entries {
		if e.Phase != policy.PhaseConfirmed && e.Phase != policy.PhasePurging {
			open[e.UID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e policy.EntryState) bool { return open[e.UID] })
}

var errNotConfirmed = errors.New("not confirmed; nothing was changed")

// confirm shows what would be changed and asks on the terminal. Only "yes" is accepted. verb, the command, and would, its
// effect, are for the error without a terminal.
func (a *cli) confirm(show func(*ui.Printer), question, verb, would string) error {
	f, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return exit.Usagef("--yes "+verb+"s without asking; it cannot be undone", "%s asks first, and there is no terminal; it would %s", verb, would)
	}
	p := a.printer(a.stderr)
	show(p)
	p.Para("", question)
	p.Printf("Type yes: ")
	if err := p.Flush(); err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	return readAnswer(f)
}

func readAnswer(in io.Reader) error {
	answer, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	return errNotConfirmed
}

func (a *cli) purgeArchive(ctx context.Context, name string, yes bool) error {
	cfg, err := a.archive(ctx, name, false)
	if err != nil {
		return err
	}
	if !yes {
		what := "remove the archive " + name + " of CNI files"
		if err := a.confirm(func(*ui.Printer) {}, "Permanently "+what+"? This cannot be undone.", "purge", what); err != nil {
			return err
		}
	}
	if err := a.person.DropArchive(ctx, cfg, name); err != nil {
		return fmt.Errorf("cannot purge %s: %w", name, err)
	}
	done := ui.NewOutcomes([]policy.Outcome{{Action: policy.Action{Entry: name}, Result: policy.Done}})
	return a.write(done, func(p *ui.Printer) { p.Printf("purged: %s\n", name) })
}
