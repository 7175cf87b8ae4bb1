package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

func newQuarantineCommand(a *app) *cobra.Command {
	return newGroup("quarantine", "Show, restore and purge what is in quarantine",
		newListCommand(a), newRestoreCommand(a), newPurgeCommand(a), newResumeCommand(a))
}

func newListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List what is in quarantine, what is left of it and when it goes; changes nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.open(cmd, reads)
			if err != nil {
				return err
			}
			defer n.Close()
			s, err := n.Pass(cmd.Context(), reaper.Options{DryRun: true, Only: append(n.quarantined(), noPod)})
			if err != nil {
				return err
			}
			s.Pods = nil
			n.name(&s)
			n.unlisted(&s)
			if err := a.print(s, func(w io.Writer) error { return show.QuarantineList(w, s) }); err != nil {
				return err
			}
			return needs(s.Operator)
		},
	}
	a.addOutput(cmd)
	return cmd
}

func newRestoreCommand(a *app) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "restore UID", Short: "Move a pod's directory back to the pods directory", Args: needPods(1),
		Long: `Move a pod's directory from quarantine back to the pods directory. The pod is then
kept until "orphan-reaper sweep UID" names it, or the kubelet has not reported it
for an hour.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.order(cmd, args, func(n *opened, uids []parsers.PodUID) ([]judge.Event, error) {
				return n.Restore(cmd.Context(), uids[0], replace, n.by)
			}, "`orphan-reaper explain "+args[0]+"` shows the pod")
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "move the directory that the pod has now to quarantine")
	a.addOutput(cmd)
	return cmd
}

func newPurgeCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "purge UID...", Short: "Remove pods from quarantine for ever, with a user's data", Args: needPods(0),
		Long: `Remove all that is left of pods in quarantine, also volumes with a user's data.
It cannot be undone. On a terminal it asks first.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.order(cmd, args, func(n *opened, uids []parsers.PodUID) ([]judge.Event, error) {
				if !yes && a.terminal() {
					if err := a.ask(fmt.Sprintf("Remove %s for ever?", uids), "purge"); err != nil {
						return nil, err
					}
				}
				return n.Purge(cmd.Context(), uids, n.by)
			}, "`orphan-reaper quarantine list` shows what is in quarantine")
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.addOutput(cmd)
	return cmd
}

func newResumeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume", Short: "Close the circuit breaker: pods are moved and cleaned again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.open(cmd, acts)
			if err != nil {
				return err
			}
			defer n.Close()
			was, err := n.Resume(cmd.Context(), n.by)
			if err != nil {
				return err
			}
			return a.print(map[string]bool{"was_open": was}, func(w io.Writer) error { return show.Resume(w, was) })
		},
	}
	a.addOutput(cmd)
	return cmd
}
