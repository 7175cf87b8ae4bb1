package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

func newRestoreCommand(a *app) *cobra.Command {
	var batch string
	cmd := &cobra.Command{
		Use: "restore UID|ARCHIVE|--batch BATCH", Short: "Put a pod directory, or CNI files, back",
		Long: `Put a pod directory back where it was, with what CNI had of the pod, and say
what cannot be brought back. What lay in a single volume directory goes back
into it, where that is still there and nothing of the same name lies in it. The
pod is then kept for ever.

With the name of an archive of CNI files: put its files back; an address only
if it is still free. With --batch: those of all archives of the same sweep.`,
		Example: "  orphan-reaper quarantine restore 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n" +
			"  orphan-reaper quarantine restore cni-20260301-120000-000\n  orphan-reaper quarantine restore --batch cni-20260301-120000-000",
		Args: func(cmd *cobra.Command, args []string) error {
			switch given := cmd.Flags().Changed("batch"); {
			case given && len(args) > 0:
				return exit.Usagef("", "%s: --batch and %s: which of them?", cmd.CommandPath(), strconv.Quote(args[0]))
			case given && !strings.HasPrefix(batch, cni.ArchivePrefix):
				return exit.Usagef("orphan-reaper quarantine list shows them", "%s: --batch wants the name of an archive of CNI files, not %s", cmd.CommandPath(),
					strconv.Quote(batch))
			case !given && len(args) != 1:
				return exit.Usagef("orphan-reaper quarantine list shows them", "%s wants one pod UID, or the name of an archive", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeQuarantined,
		RunE: func(cmd *cobra.Command, args []string) error {
			if batch != "" {
				return a.restoreBatch(cmd.Context(), batch)
			}
			return a.restore(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVar(&batch, "batch", "", "all that one sweep over CNI's files took, by the name of any of its archives")
	return cmd
}

func isArchive(args []string) bool {
	return len(args) == 1 && strings.HasPrefix(args[0], cni.ArchivePrefix)
}

// archiveThere is an error where there is no archive of this name.
func (a *app) archiveThere(ctx context.Context, cfg config.Config, name string) error {
	all, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return s.Name == name }) {
		return exit.Failf(seeQuarantine, "there is no archive %s", clean.Text(name))
	}
	return nil
}

// restoreArchive puts the files of one archive back.
func (a *app) restoreArchive(ctx context.Context, name string) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	return a.archiveRestored(ctx, cfg, name, a.deps.restoreCNI)
}

// restoreBatch puts the files of all archives of one sweep back.
func (a *app) restoreBatch(ctx context.Context, name string) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	batch := cni.BatchOf(name)
	all, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return cni.BatchOf(s.Name) == batch }) {
		return exit.Failf(seeQuarantine, "there is no batch %s", clean.Text(name))
	}
	return a.archiveRestored(ctx, cfg, batch, a.deps.restoreBatch)
}

// archiveRestored puts files back and says so.
func (a *app) archiveRestored(
	ctx context.Context, cfg config.Config, name string, restore func(context.Context, config.Config, string) ([]cni.Outcome, error),
) error {
	outs, err := restore(ctx, cfg, name)
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if a.json() {
		return errors.Join(a.writeJSON(view.NewArchiveRestored(outs)), cniErrors(outs))
	}
	p := a.printer(a.stdout)
	p.CNIRestored(outs)
	return errors.Join(p.Flush(), cniErrors(outs))
}

func cniErrors(outs []cni.Outcome) error {
	var errs []error
	for _, o := range outs {
		if o.Result != policy.Done && o.Result != policy.Gone { // the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean.Text(o.File.Path()), o.Err))
		}
	}
	if len(errs) > 10 {
		errs = append(errs[:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return errors.Join(errs...)
}

// purgeArchive drops one archive for ever, by a person's word.
func (a *app) purgeArchive(ctx context.Context, name string, yes bool) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	if !yes {
		if err := a.confirm("Drop the archive " + name + " of CNI files for ever?"); err != nil {
			return err
		}
	}
	if err := a.deps.dropArchive(ctx, cfg, name); err != nil {
		return fmt.Errorf("cannot purge %s: %w", name, err)
	}
	if a.json() {
		return a.writeJSON(view.NewOutcomes([]policy.Outcome{{Action: policy.Action{Entry: name}, Result: policy.Done}}))
	}
	return a.say("purged: " + name)
}
