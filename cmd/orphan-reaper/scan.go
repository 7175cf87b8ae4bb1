package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

func newScanCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "scan [UID...]", Short: "Show every pod directory, and why it is kept; changes nothing",
		Long: `Scan the node once, listen to the kubelet's log for up to five seconds, and show
every pod directory with its verdict and the reasons. A pod that only waits for
the hold is "wait": the daemon moves it a minute after its first good scan.

While a daemon runs, its settings count, and not those of the file. A flag of this
command wins over both.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.scan(cmd, args, false, show.Scan) },
	}
	a.addOutput(cmd)
	return cmd
}

// scan scans once and shows the status: scan, and sweep --dry-run, which is an order and so obeys no mode.
func (a *app) scan(cmd *cobra.Command, args []string, order bool, text func(io.Writer, reaper.Status) error) error {
	n, err := a.open(cmd, reads)
	if err != nil {
		return err
	}
	defer n.Close()
	uids, err := n.pods(cmd.Context(), args)
	if err != nil {
		return err
	}
	s, err := a.once(cmd.Context(), n, reaper.Options{Only: uids, Order: order})
	if err != nil {
		return err
	}
	if err := a.print(brief(s), func(w io.Writer) error { return text(w, s) }); err != nil {
		return err
	}
	return needs(s.Operator)
}

// brief returns the status without the facts of its pods, which explain shows.
func brief(s reaper.Status) reaper.Status {
	pods := make([]reaper.PodStatus, len(s.Pods))
	for i, p := range s.Pods {
		p.Facts = judge.Facts{}
		pods[i] = p
	}
	s.Pods = pods
	return s
}
