package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func newUnmountCommand(a *cli) *cobra.Command {
	var dryRun, yes bool
	var gone []string
	cmd := &cobra.Command{
		Use: "unmount POD", Short: "Unmount what keeps a dead pod's directory busy",
		Long: `Prove that a pod is dead as sweep does, show what is mounted below its directory
in the node's own mount namespace, ask, and unmount it, the innermost mount
first. Then the pod is removed like any other. The command is for a root shell
of the node. The daemon never unmounts anything.

The evidence must stay good for --hold, and is read again after each mount. The
first doubt ends the command. What is in use stays mounted: nothing is detached
lazily or by force. Files on disks and servers stay where they are. What lies in
memory (tmpfs, hugetlbfs) is lost, as when the kubelet ends a pod. orphan-reaper
mounts nothing again.

A CSI volume stays if another pod or a process has it mounted: its driver
unmounts it. If the driver no longer runs on this node, name it with
--driver-gone. A mount also stays if something outside of the pod's directory
would be unmounted with it, or if its file system hangs. The same command again
continues.

` + sweepArgHelp + "\n\n" + attentionHelp,
		Example: "  orphan-reaper unmount --dry-run 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n  orphan-reaper unmount 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11",
		Args:    onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, certainName, true)
			if err != nil {
				return err
			}
			a.printPods(args, uids)
			return a.unmount(cmd.Context(), cfg, uids[0], app.UnmountOptions{DryRun: dryRun, DriversGone: gone}, yes)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is mounted and what would be unmounted, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringArrayVar(&gone, "driver-gone", nil, "unmount volumes of this CSI `DRIVER` that no longer runs here; can be repeated")
	return cmd
}

func (a *cli) unmount(ctx context.Context, cfg config.Config, uid parsers.PodUID, o app.UnmountOptions, yes bool) error {
	shown := a.viewContext(cfg)
	shown.Daemon = app.FindDaemon(ctx, cfg)
	view := func(u *reaper.Unmounting) ui.Unmount { return ui.NewUnmount(u, shown, o.DryRun) }
	o.Agree = func(u *reaper.Unmounting) error {
		if yes {
			return nil
		}
		v := view(u)
		question := "Unmount " + ui.UnmountSum(&v) + "? Files on disks and servers stay; those in memory are lost. orphan-reaper mounts nothing again."
		return a.confirm(func(p *ui.Printer) { p.Mounts(&v) }, question, "unmount", "unmount "+ui.UnmountSum(&v))
	}
	o.Waits = func(u *reaper.Unmounting, wait time.Duration) {
		if !a.quiet {
			_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: the pod has to stay dead for %s more (%s)\n", human.Span(wait), policy.WhyWords(u.Verdict.Why))
		}
	}
	u, err := a.person.Unmount(ctx, cfg, uid, o)
	switch {
	case errors.Is(err, reaper.ErrRefused) && policy.Stopped(u.Verdict.Why):
		return exit.Failf("", "nothing is unmounted now: %s", policy.WhyWords(u.Verdict.Why))
	case errors.Is(err, reaper.ErrRefused) && u.Verdict.For(policy.ReasonMounted):
		return exit.Failf(ui.MountedBeyond, "%w: %s", err, policy.WhyWords(u.Verdict.Why))
	case errors.Is(err, reaper.ErrRefused):
		return exit.Failf("orphan-reaper explain "+string(uid)+" shows all of the evidence", "%w: %s", err, policy.WhyWords(u.Verdict.Why))
	case errors.Is(err, reaper.ErrNotMounted) && u.Mounts.Outside.Truth == policy.Yes:
		return exit.Failf(ui.MountedBeyond, "cannot unmount %s: %w", uid, err)
	case errors.Is(err, reaper.ErrNotMounted):
		return exit.Failf("orphan-reaper explain "+string(uid)+" shows what keeps it", "cannot unmount %s: %w", uid, err)
	case err != nil && (u == nil || len(u.Outcomes) == 0):
		return err
	}
	v := view(u)
	if shown := a.write(v, func(p *ui.Printer) { p.Unmount(v) }); shown != nil || err != nil {
		return errors.Join(err, shown)
	}
	if !o.DryRun && v.Before == nil && !u.Touched() && len(u.Left) > 0 {
		return exit.Failf("", "nothing was unmounted: %s", u.Stopped)
	}
	return exit.Attention(v.NeedsPerson())
}
