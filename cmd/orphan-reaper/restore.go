package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func newRestoreCommand(a *cli) *cobra.Command {
	var batch string
	cmd := &cobra.Command{
		Use: "restore POD|ARCHIVE|--batch BATCH", Short: "Put a pod directory, or CNI files, back",
		Long: `Put a pod directory back where it was, with the pod's CNI files, and print what
cannot be restored. If only the content of one volume directory was moved, it is
put back into that directory, if the directory is still there and holds nothing
of the same name. The pod is then kept until you run quarantine forget.

With the name of an archive of CNI files, the command puts the files of that
archive back. An address is put back only if it is still free. With --batch the
command puts back the files of all archives of the same sweep.

` + entryArgHelp,
		Example: "  orphan-reaper quarantine restore 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n" +
			"  orphan-reaper quarantine restore cni-20260301-120000-000\n  orphan-reaper quarantine restore --batch cni-20260301-120000-000",
		Args: func(cmd *cobra.Command, args []string) error {
			switch given := cmd.Flags().Changed("batch"); {
			case given && len(args) > 0:
				return exit.Usagef("", "give either --batch or %s", strconv.Quote(args[0]))
			case given && !strings.HasPrefix(batch, cni.ArchivePrefix):
				return exit.Usagef("orphan-reaper quarantine list shows them", "--batch: %s is not the name of an archive of CNI files", strconv.Quote(batch))
			case !given && len(args) != 1:
				return exit.Usagef("orphan-reaper quarantine list shows them", "name one pod, or one archive")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if batch != "" {
				return a.restoreArchive(cmd.Context(), batch, true)
			}
			return a.restore(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVar(&batch, "batch", "", "put back all CNI files that one sweep removed; name any of its archives")
	return cmd
}

// restore puts one pod back, and prints what cannot be restored.
func (a *cli) restore(ctx context.Context, args []string) error {
	if isArchive(args) {
		return a.restoreArchive(ctx, args[0], false)
	}
	cfg, uid, entries, err := a.quarantined(ctx, args)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return a.restoredBefore(ctx, cfg, uid)
	}
	outcome, err := a.person.Restore(ctx, cfg, uid, entries)
	if errors.Is(err, reaper.ErrNotThere) { // a concurrent restore was faster
		return a.restoredBefore(ctx, cfg, uid)
	}
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", uid, err)
	}
	entry := entries[0]
	if i := slices.IndexFunc(entries, func(e policy.EntryState) bool { return e.Entry == outcome.Action.Entry }); i >= 0 {
		entry = entries[i]
	}
	if outcome.Result != policy.Done && outcome.Result != policy.Conflict {
		return &exit.Error{
			Code: exit.FailedCode, Err: outcomeError("restore", outcome),
			Hint: "orphan-reaper explain " + string(uid) + " shows what lies where",
		}
	}
	return a.restoreCNI(ctx, cfg, uid, ui.NewOutcomes([]policy.Outcome{outcome}), func(p *ui.Printer, files cni.Restored) {
		p.Restored(a.viewContext(cfg), entry, outcome, files)
	})
}

// restoreCNI puts back the CNI files of a pod whose directory was put back, and prints both results.
func (a *cli) restoreCNI(
	ctx context.Context, cfg config.Config, uid parsers.PodUID, outcomes ui.Outcomes, text func(p *ui.Printer, files cni.Restored),
) error {
	files, err := a.person.RestoreCNI(ctx, cfg, string(uid))
	shown := a.write(ui.NewRestored(outcomes, files), func(p *ui.Printer) { text(p, files) })
	return errors.Join(shown, err, cniErrors(files))
}

// restoredBefore ends a restore of a pod that has nothing in quarantine. If the ledger has a restore of the pod, an earlier
// run may have been killed before it put the pod's CNI files back.
func (a *cli) restoredBefore(ctx context.Context, cfg config.Config, uid parsers.PodUID) error {
	last, done, err := doneBefore(cfg, uid, policy.KindRestored)
	if err != nil {
		return err
	}
	return a.restoreCNI(ctx, cfg, uid, done, func(p *ui.Printer, files cni.Restored) {
		p.Printf("put back already, at %s: %s\n", human.When(last.At.Wall), clean.Text(cfg.PodsDir()+"/"+string(uid)))
		p.CNIRestored(files)
	})
}

func newForgetCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use: "forget POD...", Short: "Judge a pod again that you have put back",
		Long: `A pod that you put back with quarantine restore is kept. This command ends that.
The pod is then judged like any other: it is removed once it has been proved
dead for the time of --hold.

This command moves and removes nothing. It changes nothing that lies in
quarantine, and it does not close the breaker: quarantine resume does.

` + sweepArgHelp,
		Example: "  orphan-reaper quarantine forget 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("orphan-reaper scan lists all pods", "name a pod")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, certainName, true)
			if err != nil {
				return err
			}
			a.printPods(args, uids)
			return a.forget(cmd.Context(), cfg, uids)
		},
	}
}

// forget ends the protection of restored pods. A pod that is not protected is an error, unless it was forgotten before.
func (a *cli) forget(ctx context.Context, cfg config.Config, uids []parsers.PodUID) error {
	forgotten, err := a.person.Forget(ctx, cfg, uids)
	if err != nil {
		return fmt.Errorf("cannot forget: %w", err)
	}
	var errs []error
	var outcomes []policy.Outcome
	var text strings.Builder
	for _, uid := range uids {
		o := policy.Outcome{Action: policy.Action{UID: uid}, Result: policy.Done}
		if slices.Contains(forgotten, uid) {
			fmt.Fprintf(&text, "forgotten: %s is judged again from now on. To see how:\n  orphan-reaper explain %[1]s\n", uid)
			outcomes = append(outcomes, o)
			continue
		}
		last, err := app.LastOutcome(cfg, uid)
		switch {
		case err != nil:
			errs = append(errs, err)
		case last.Kind == policy.KindForgotten:
			fmt.Fprintf(&text, "forgotten already, at %s: %s\n", human.When(last.At.Wall), uid)
			o.Result = policy.Gone
			outcomes = append(outcomes, o)
		default:
			errs = append(errs, exit.Failf("orphan-reaper explain "+string(uid)+" shows what keeps it",
				"nothing to forget: the pod %s was not restored", uid))
		}
	}
	return errors.Join(append(errs, a.write(ui.NewOutcomes(outcomes), func(p *ui.Printer) { p.Printf("%s", text.String()) }))...)
}

func isArchive(args []string) bool {
	// A namespace may have the same prefix: NAMESPACE/NAME is no archive.
	return len(args) == 1 && strings.HasPrefix(args[0], cni.ArchivePrefix) && !strings.Contains(args[0], "/")
}

// archive returns the configuration, and an error if there is no archive with this name, or of this batch.
func (a *cli) archive(ctx context.Context, name string, batch bool) (config.Config, error) {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return cfg, err
	}
	q, err := app.ReadQuarantine(cfg)
	if err := cmp.Or(err, q.Unread); err != nil {
		return cfg, err
	}
	matches := func(s cni.ArchiveState) bool {
		return s.Name == name || batch && cni.BatchOf(s.Name) == cni.BatchOf(name)
	}
	if what := map[bool]string{false: "archive", true: "batch"}[batch]; !slices.ContainsFunc(q.Archives, matches) {
		return cfg, exit.Failf(seeQuarantine, "there is no %s %s", what, clean.Text(name))
	}
	return cfg, nil
}

// restoreArchive puts back the files of one archive, or those of all archives of its sweep. It puts back the readable part of
// a damaged archive, too.
func (a *cli) restoreArchive(ctx context.Context, name string, batch bool) error {
	cfg, err := a.archive(ctx, name, batch)
	if err != nil {
		return err
	}
	restore := a.person.RestoreCNI
	if batch {
		name, restore = cni.BatchOf(name), a.person.RestoreBatch
	}
	done, err := restore(ctx, cfg, name)
	if err != nil && done.All() == 0 {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if err != nil {
		err = fmt.Errorf("cannot restore all of %s: %w", name, err)
	}
	shown := a.write(ui.NewArchiveRestored(done), func(p *ui.Printer) { p.CNIRestored(done) })
	return errors.Join(shown, cniErrors(done), err)
}

func cniErrors(done cni.Restored) error {
	var errs []error
	for _, o := range done.Outcomes {
		if len(errs) < 10 && o.Result != policy.Done && o.Result != policy.Gone { // Gone: the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean.Text(o.Path()), o.Err))
		}
	}
	if more := done.Failed - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
