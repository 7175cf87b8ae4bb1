package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const attentionHelp = `Exit code 3: something is kept that needs you, or something in quarantine
conflicts with a directory that was made again, or a setting contradicts the
running kubelet. Three kinds of pods do not lead to exit code 3: pods that live
(sandbox, container, cgroup), pods that wait, and pods that an operator wants
kept (mode observe, restored).`

const scanHelp = `Take one look at the pods directory. Show what would happen to each entry, and
why. The command changes nothing.

Pods that live or have ended are counted. To list them, use --all or name them.
CNI files are grouped by network and reason.

In a pipe each pod is one line. Tabs separate its fields: verdict, UID,
NAMESPACE/NAME, bytes, reasons, and notes. An empty field is "-". Lines of text
begin with "#". -o json shows all that is known of each pod.`

// scanOptions are scan's own flags.
type scanOptions struct {
	all     bool
	verdict string
}

func newScanCommand(a *cli) *cobra.Command {
	var o scanOptions
	cmd := &cobra.Command{
		Use:   "scan [POD...]",
		Short: "Show every pod directory and its verdict; changes nothing",
		Long:  scanHelp + "\n\n" + podArgHelp + "\n\n" + attentionHelp,
		Example: "  orphan-reaper scan\n  orphan-reaper scan --verdict keep\n  orphan-reaper scan | grep ^reap | cut -f 2\n" +
			"  orphan-reaper scan -o json | jq '.pods[] | select(.verdict == \"reap\") | .uid'",
		ValidArgsFunction: a.completePods,
		PreRunE: func(*cobra.Command, []string) error {
			if a.json() && o.verdict != "" {
				return exit.Usagef("jq '.pods[] | select(.verdict == \""+o.verdict+"\")' does", "--verdict filters text, and JSON has all pods")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, anyName, false)
			if err != nil {
				return err
			}
			return a.scan(cmd.Context(), cfg, uids, o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "also list living pods, and list each CNI file by itself")
	verdicts := []string{"reap", "wait", "keep", "alive"}
	flags.Var(&choiceValue{&o.verdict, verdicts, "VERDICT"}, "verdict", "list only pods with this verdict: reap, wait, keep or alive")
	if err := cmd.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions(verdicts, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there: the first call of any command shows it
	}
	return cmd
}

// scan takes one look and prints it.
func (a *cli) scan(ctx context.Context, cfg config.Config, uids []parsers.PodUID, o scanOptions) error {
	report, err := app.Survey(ctx, cfg, uids)
	if err != nil {
		return err
	}
	c := a.viewContext(ctx, cfg)
	shown := ui.NewReport(report, c)
	shown.Asked(uids)
	shown.List(o.all || len(uids) > 0, o.verdict)
	err = a.write(shown, func(p *ui.Printer) {
		if entries, err := a.inQuarantine(ctx, cfg); err == nil { // else what the report has
			shown.Lies(entries, c)
		}
		p.Report(&shown)
	})
	if err != nil {
		return err
	}
	return exit.Attention(shown.NeedsPerson() || contradicted(report))
}

// contradicted reports whether a setting contradicts the running kubelet. Then nothing is removed, and the operator has to
// act even if there is nothing to remove now.
func contradicted(r reaper.Report) bool { return r.Look.Node.Agrees.Truth == policy.No }
