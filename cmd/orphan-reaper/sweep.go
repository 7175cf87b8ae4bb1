package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

func newSweepCommand(a *app) *cobra.Command {
	var dryRun, noWait bool
	cmd := &cobra.Command{
		Use: "sweep [UID...]", Short: "Do the daemon's work until the kubelet reports nothing more that can go",
		Long: `Move dead pods to quarantine as the daemon does, wait for hold and confirm, and
clean them, until the kubelet reports nothing more that can go. It is an order,
and obeys no mode. A pod that an operator has restored is judged again if it is
named. Beside a running daemon only --no-wait is possible.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun {
				return a.scan(cmd, args, true, show.Scan)
			}
			return a.sweep(cmd, args, noWait)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "scan once, sweep CNI, and clean what is due in quarantine; move no pod")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, and change nothing")
	a.addOutput(cmd)
	return cmd
}

func (a *app) sweep(cmd *cobra.Command, args []string, noWait bool) error {
	if !noWait {
		daemon, err := a.released(cmd, args)
		if err != nil {
			return err
		}
		if daemon != 0 {
			_, err := fmt.Fprintf(a.out, "The daemon (PID %d) judges it again by itself, within five minutes.\n", daemon)
			return err
		}
	}
	ctx, to := cmd.Context(), sweeps
	if noWait {
		to = acts // it moves no pod, so that it may run beside the daemon
	}
	n, err := a.open(cmd, to)
	if err != nil {
		return err
	}
	defer n.Close()
	uids, err := n.pods(ctx, args)
	if err != nil {
		return err
	}
	opt := reaper.Options{Only: uids, Lift: uids, NoMoves: noWait}
	if err := n.ready(ctx, opt); err != nil {
		return err
	}
	n.Ended = func(_ uint64, s reaper.Status, err error) {
		if err == nil {
			n.sources.follow(ctx, s.Node, false)
		}
	}
	s, err := n.Sweep(ctx, opt, func(s reaper.Status, wait time.Duration) {
		_ = show.Progress(a.stderr, s, wait) // nobody may read it
	})
	s.Problems = append(s.Problems, n.sources.problems()...)
	if printErr := a.print(brief(s), func(w io.Writer) error { return show.Sweep(w, s) }); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	return needs(s.Operator)
}

// released has a running daemon judge pods again that an operator has restored, and returns its PID. Without a daemon, or if
// none of these was restored, it returns 0.
func (a *app) released(cmd *cobra.Command, args []string) (daemon int, err error) {
	n, err := a.open(cmd, acts)
	if err != nil {
		return 0, err
	}
	defer n.Close()
	uids, err := n.pods(cmd.Context(), args)
	if daemon = n.daemon(); err != nil || daemon == 0 {
		return 0, err
	}
	restored := n.store.Restored()
	if !slices.ContainsFunc(uids, func(uid parsers.PodUID) bool { return restored[uid].Operator }) {
		return 0, nil
	}
	_, err = n.Sweep(cmd.Context(), reaper.Options{Only: uids, Lift: uids, NoMoves: true}, nil)
	return daemon, err
}

// ready returns why nothing can be swept: the kubelet or its log is missing.
func (n *opened) ready(ctx context.Context, opt reaper.Options) error {
	s := n.Scanner.Scan(ctx, slices.Concat(opt.Only, []parsers.PodUID{noPod}), nil)
	if s.Node.KubeletKnown.Truth != judge.Yes {
		return failf("start the kubelet, or name its root directory by --root-dir", "cannot sweep: %s", s.Node.KubeletKnown.Detail)
	}
	if n.sources.follow(ctx, s.Node, false); n.sources.problem != "" && !opt.NoMoves {
		return failf("name the log by --log-files or --journal-units", "cannot sweep: %s", n.sources.problem)
	}
	return nil
}

// noPod is the UID of no pod: a scan of it reads the node alone.
const noPod parsers.PodUID = "00000000-0000-0000-0000-000000000000"
