package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

const fleetHelp = `Name the nodes by the addresses on which their daemons answer
(--web-listen-address): http://HOST:PORT, https://HOST:PORT, or NODE=ADDRESS.
Give the addresses as arguments, or in a file with one address on each line.
--service finds the daemons of a cluster.

If a node does not answer, the command names it, and the exit code is 3.`

func newFleetCommand(a *cli) *cobra.Command {
	group := newGroup("fleet", "Ask the daemons of many nodes at once",
		"Ask the daemons of many nodes what orphans they have, or have them look now. You\ncannot remove, restore or resume anything from here.\n\n"+fleetHelp)
	group.AddCommand(a.worksLong(newFleetListCommand(a)), a.worksLong(newFleetSweepCommand(a)))
	return group
}

// fleetFlags adds the flags that say who is asked, and how.
func fleetFlags(cmd *cobra.Command, o *app.FleetOptions) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.From, "from", "", "a `FILE` with one address on each line; - is stdin")
	f.IntVar(&o.Parallel, "parallel", 100, "ask this many nodes at once")
	f.DurationVar(&o.Patience, "timeout", 5*time.Second, "how long each node has to answer")
	f.StringVar(&o.Service, "service", "", "`NAMESPACE/NAME` of the daemons' Service; --ca-file or --tls-server-name make it ask by https")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "a `FILE` that names the API server (default: $KUBECONFIG, ~/.kube/config, the pod's service account)")
	f.StringVar(&o.CAFile, "ca-file", "", "the authority's certificates, in PEM (default: the system's)")
	f.StringVar(&o.ServerName, "tls-server-name", "", "the `NAME` in the certificates of all nodes (default: each node's address)")
	f.StringVar(&o.TokenFile, "token-file", "", "a `FILE` with a bearer token for the nodes; only with https://")
	f.StringVar(&o.User, "user", "", "the user `NAME` for nodes that ask for one; only with https://")
	f.StringVar(&o.PasswordFile, "password-file", "", "a `FILE` whose first line is the password")
}

func newFleetListCommand(a *cli) *cobra.Command {
	var o app.FleetOptions
	var which ui.FleetScope
	var file string
	cmd := &cobra.Command{
		Use: "list [ADDRESS...]", Short: "Show the orphans of many nodes, and what needs you",
		Long: "Show the orphans of many nodes: sums first, then the nodes on which something\nlies, " +
			"the pods that need you, and the nodes that are silent.\n\n" +
			"If you name no node, the command asks the API server for the OrphanReports. The\n" +
			"daemons of a cluster write them about once an hour and soon after a change. A\n" +
			"node is silent if it has no report, or one that is older than two and a half\n" +
			"hours. If no node has reported and the nodes are not known, the exit code is 3.\n\n" + fleetHelp,
		Example: "  orphan-reaper fleet list\n" +
			"  orphan-reaper fleet list http://10.0.0.1:9477 http://10.0.0.2:9477\n" +
			"  orphan-reaper fleet list --from nodes.txt -o json | jq '.pods[].uid'\n" +
			"  kubectl get nodes,orphans -o json | orphan-reaper fleet list --reports -",
		Annotations: marks(noSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			if which.Wide && which.NeedsPerson {
				return exit.Usagef("", "--wide and --needs-person exclude each other")
			}
			shown, err := a.fleetList(cmd.Context(), o, args, file, which)
			if err != nil {
				return err
			}
			shown.Sort()
			if err := a.write(shown, func(p *ui.Printer) { p.FleetList(shown) }); err != nil {
				return err
			}
			return exit.Attention(shown.NeedsPerson())
		},
	}
	fleetFlags(cmd, &o)
	cmd.Flags().StringVar(&file, "reports", "", "a `FILE` with the output of kubectl get nodes,orphans -o json; - is stdin")
	cmd.Flags().BoolVar(&which.Wide, "wide", false, "show every node and every pod, and not only those that need you")
	cmd.Flags().BoolVar(&which.NeedsPerson, "needs-person", false, "show only the nodes that need you")
	return cmd
}

// fleetList asks the daemons that are named, or else reads what all have reported.
func (a *cli) fleetList(ctx context.Context, o app.FleetOptions, args []string, file string, which ui.FleetScope) (*ui.FleetList, error) {
	o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
	var shown *ui.FleetList
	work := progress.From(ctx)
	defer work.End()
	reports, err := o.WantsReports(file)
	if err != nil {
		return nil, err
	}
	if reports {
		begin := func() {
			shown = ui.NewFleetList(0, which)
			work.Begin("reading the nodes' reports", "node", 0)
		}
		doubt, err := app.FleetReports(ctx, &o, file, begin, func(at report.Target, r *report.Report, err error) {
			shown.AddReport(at, r, err)
			work.Add(1)
		})
		if err != nil {
			return nil, err
		}
		shown.Reported(doubt.Notes, doubt.Nobody)
		return shown, nil
	}
	fleet, err := app.OpenFleet(ctx, o)
	if err != nil {
		return nil, err
	}
	shown = ui.NewFleetList(len(fleet.Targets), which)
	work.Begin("asking the nodes", "node", int64(len(fleet.Targets)))
	fleet.List(ctx, func(at report.Target, r *report.Report, err error) {
		shown.Add(at, r, err)
		work.Add(1)
	})
	return shown, nil
}

func newFleetSweepCommand(a *cli) *cobra.Command {
	var o app.FleetOptions
	var mostBreakers int
	cmd := &cobra.Command{
		Use: "sweep [ADDRESS...]", Short: "Have the daemons of many nodes look now",
		Long: "Ask the daemon of each node to look now. It then does what its settings and the\n" +
			"facts allow, as it does by itself. No hold becomes shorter.\n\n" + fleetHelp,
		Example: "  orphan-reaper fleet sweep --from nodes.txt\n" +
			"  orphan-reaper fleet sweep --user sweeper --password-file pw --ca-file ca.pem \\\n    https://10.0.0.1:9477",
		Annotations: marks(noSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			if mostBreakers < 0 {
				return exit.Usagef("0 stops at the first node whose breaker is open", "--max-breakers %d is negative", mostBreakers)
			}
			o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
			fleet, err := app.OpenFleet(cmd.Context(), o)
			if err != nil {
				return err
			}
			shown := ui.NewFleetSweep(len(fleet.Targets))
			work := progress.From(cmd.Context())
			work.Begin("asking the nodes", "node", int64(len(fleet.Targets)))
			shown.Breakers = fleet.Sweep(cmd.Context(), mostBreakers, func(at report.Target, answer *report.Answer, asked bool, err error) {
				shown.Add(at, answer, asked, err)
				work.Add(1)
			})
			work.End()
			shown.Sort()
			if err := a.write(shown, func(p *ui.Printer) { p.FleetSweep(shown) }); err != nil {
				return err
			}
			return exit.Attention(len(shown.Silent)+len(shown.NotAsked) > 0)
		},
	}
	fleetFlags(cmd, &o)
	cmd.Flags().IntVar(&mostBreakers, "max-breakers", 2, "stop asking once the breaker is open on more nodes than this")
	return cmd
}
