package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
)

const attentionHelp = `Exit code 3 says that something is kept that a person should look at. A pod
that lives (sandbox, container, cgroup), that waits for a time to pass, or that
is kept by a person's own word (mode observe, restored) is no such thing.`

func newScanCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "scan [POD...]",
		Short: "Show every pod directory and its verdict; changes nothing",
		Long: "Take one look at the pods directory and show for each entry what would happen\nto it and why. Changes nothing.\n\n" +
			podArgHelp + "\n\n" + attentionHelp,
		Example:           "  orphan-reaper scan\n  orphan-reaper scan -o json | jq '.pods[] | select(.verdict == \"reap\") | .uid'",
		ValidArgsFunction: a.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, false)
			if err != nil {
				return err
			}
			report, err := a.deps.survey(cmd.Context(), cfg, uids)
			if err != nil {
				return err
			}
			shown := view.NewReport(report, a.viewContext(cfg))
			shown.Missing(uids)
			if err := a.write(shown, func(p *view.Printer) { p.Scan(&shown) }); err != nil {
				return err
			}
			return exit.Attention(shown.NeedsPerson())
		},
	}
}
