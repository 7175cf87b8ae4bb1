package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const attentionHelp = `Exit code 0: done. 1: failed. 2: wrong usage or configuration.

Exit code 3: you have something to do. A pod, a CNI file or a mount is kept
until you act, or a pod lives again whose directory is in quarantine, or a
setting contradicts the running kubelet, or a sweep cannot finish what it began
with a pod in quarantine. Pods that live (sandbox, container, cgroup), pods that
wait, and pods that you want kept (mode observe, restored) do not by themselves
lead to exit code 3.`

const scanHelp = `Take one look at the pods directory. Show what would happen to each entry, and
why. The command changes nothing.

Pods that live or have ended are counted. To list them, use --all or name them.
CNI files are grouped by network and reason.

In a pipe each pod is one line. Tabs separate its fields: verdict, UID,
NAMESPACE/NAME, bytes, reasons, and notes. An empty field is "-". Lines of text
begin with "#". -o json shows all facts about each pod.`

func newScanCommand(a *cli) *cobra.Command {
	var show ui.Show
	cmd := &cobra.Command{
		Use:   "scan [POD...]",
		Short: "Show every pod directory and its verdict; changes nothing",
		Long:  scanHelp + "\n\n" + podArgHelp + "\n\n" + attentionHelp,
		Example: "  orphan-reaper scan\n  orphan-reaper scan --verdict keep\n  orphan-reaper scan | grep ^reap | cut -f 2\n" +
			"  orphan-reaper scan -o json | jq '.pods[] | select(.verdict == \"reap\") | .uid'",
		PreRunE: func(*cobra.Command, []string) error {
			if a.json() && show.Verdict != "" {
				verdict, does := show.Verdict, "does"
				if verdict == "alive" {
					verdict, does = string(policy.Keep), "lists living pods and all others that are kept"
				}
				return exit.Usagef("jq '.pods[] | select(.verdict == \""+verdict+"\")' "+does, "--verdict filters text, and JSON has all pods")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, anyName, false)
			if err != nil {
				return err
			}
			show.Only, show.All = uids, show.All || len(uids) > 0
			return a.scan(cmd.Context(), cfg, show)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&show.All, "all", false, "also list living pods, and list each CNI file by itself")
	verdicts := []string{"reap", "wait", "keep", "alive"}
	flags.Var(&choiceValue{&show.Verdict, verdicts, "VERDICT"}, "verdict", "list only pods with this verdict: reap, wait, keep or alive")
	return cmd
}

func (a *cli) scan(ctx context.Context, cfg config.Config, show ui.Show) error {
	s, err := app.Look(ctx, cfg, show.Only)
	if err != nil {
		return err
	}
	shown := ui.NewReport(s.Report, a.lookContext(cfg, &s), show)
	if err := a.write(shown, func(p *ui.Printer) { p.Report(&shown) }); err != nil {
		return err
	}
	return exit.Attention(shown.NeedsPerson() || contradicted(s.Report))
}

// contradicted reports whether a setting contradicts the running kubelet, or the quarantine is not the right one. Then nothing
// is removed, and the operator has to act even if there is nothing to remove now.
func contradicted(r reaper.Report) bool {
	return r.Look.Node.Agrees.Truth == policy.No || r.Quarantine != nil
}
