package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/wire"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

const fleetHelp = `Nodes are named by the addresses on which their daemons answer
(--web-listen-address), as arguments or in a file, one a line: http://HOST:PORT,
https://HOST:PORT, or NODE=ADDRESS. --service finds the daemons of a cluster.

Every node that does not answer is named, and the exit code is then 3.`

func newFleetCommand(a *app) *cobra.Command {
	group := newGroup("fleet", "Ask the daemons of many nodes at once",
		"Ask the daemons of many nodes for their orphans, or for a look. Nothing can be\nremoved, restored or resumed from here.\n\n"+fleetHelp)
	group.AddCommand(newFleetListCommand(a), newFleetSweepCommand(a))
	return group
}

// fleetFlags adds the flags that say who is asked, and how.
func fleetFlags(cmd *cobra.Command, o *wire.FleetOptions) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.From, "from", "", "a `FILE` with an address a line; - is stdin")
	f.IntVar(&o.Parallel, "parallel", 100, "how many nodes are asked at once")
	f.DurationVar(&o.Patience, "timeout", 5*time.Second, "how long each node has for its answer")
	f.StringVar(&o.Service, "service", "", "`NAMESPACE/NAME` of the daemons' Service; with --ca-file or --tls-server-name they are asked by https")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "a `FILE` that names the API server (default: $KUBECONFIG, ~/.kube/config, the pod's service account)")
	f.StringVar(&o.CAFile, "ca-file", "", "certificates of the authority, in PEM (default: the system's)")
	f.StringVar(&o.ServerName, "tls-server-name", "", "the `NAME` for which the certificates of all nodes are (default: each node's address)")
	f.StringVar(&o.TokenFile, "token-file", "", "a `FILE` with a bearer token for the nodes; with https:// only")
	f.StringVar(&o.User, "user", "", "`NAME` for the nodes that want one; with https:// only")
	f.StringVar(&o.PasswordFile, "password-file", "", "a `FILE` whose first line is the password")
}

func newFleetListCommand(a *app) *cobra.Command {
	var o wire.FleetOptions
	var which view.FleetScope
	var file string
	cmd := &cobra.Command{
		Use: "list [ADDRESS...]", Short: "Show the orphans of many nodes, and what needs you",
		Long: "Show the orphans of many nodes: sums first, then the nodes on which something\nlies, " +
			"the pods that need a person, and the nodes that are silent.\n\n" +
			"Where no node is named, the API server is asked for the OrphanReports, which the\n" +
			"daemons of a cluster write about once an hour and soon after a change. A node is\n" +
			"silent that has none, or one that is older than two and a half hours. The exit\n" +
			"code is 3 also where nobody has reported and the nodes are not known.\n\n" + fleetHelp,
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
			if err := a.write(shown, func(p *view.Printer) { p.FleetList(shown) }); err != nil {
				return err
			}
			return exit.Attention(shown.NeedsPerson())
		},
	}
	fleetFlags(cmd, &o)
	cmd.Flags().StringVar(&file, "reports", "", "a `FILE` with what kubectl get nodes,orphans -o json writes; - is stdin")
	cmd.Flags().BoolVar(&which.Wide, "wide", false, "every node and every pod, and not only those that need a person")
	cmd.Flags().BoolVar(&which.NeedsPerson, "needs-person", false, "of the nodes only those that need a person")
	return cmd
}

// fleetList asks the daemons that are named, or else reads what all have reported.
func (a *app) fleetList(ctx context.Context, o wire.FleetOptions, args []string, file string, which view.FleetScope) (*view.FleetList, error) {
	o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
	var shown *view.FleetList
	progress, done := view.NewProgress(a.stderr, a.env), 0
	defer progress.Clear()
	reports, err := o.WantsReports(file)
	if err != nil {
		return nil, err
	}
	if reports {
		begin := func() { shown, done = view.NewFleetList(0, which), 0 }
		doubt, err := wire.FleetReports(ctx, &o, file, begin, func(at report.Target, r *report.Report, err error) {
			shown.AddReport(at, r, err)
			progress.Reported(&done)
		})
		if err != nil {
			return nil, err
		}
		shown.Reported(doubt.Notes, doubt.Nobody)
		return shown, nil
	}
	fleet, err := wire.OpenFleet(ctx, o)
	if err != nil {
		return nil, err
	}
	shown = view.NewFleetList(fleet.Size(), which)
	fleet.List(ctx, func(at report.Target, r *report.Report, err error) {
		shown.Add(at, r, err)
		progress.Asked(&done, fleet.Size())
	})
	return shown, nil
}

func newFleetSweepCommand(a *app) *cobra.Command {
	var o wire.FleetOptions
	var mostBreakers int
	cmd := &cobra.Command{
		Use: "sweep [ADDRESS...]", Short: "Have the daemons of many nodes look now",
		Long: "Ask each node for a look. The daemon does then what its settings and the facts\nallow, as it does by itself; no hold is shortened.\n\n" + fleetHelp,
		Example: "  orphan-reaper fleet sweep --from nodes.txt\n" +
			"  orphan-reaper fleet sweep --user sweeper --password-file pw --ca-file ca.pem \\\n    https://10.0.0.1:9477",
		Annotations: marks(noSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			if mostBreakers < 0 {
				return exit.Usagef("0 stops at the first node whose breaker is open", "--max-breakers %d is less than nothing", mostBreakers)
			}
			o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
			fleet, err := wire.OpenFleet(cmd.Context(), o)
			if err != nil {
				return err
			}
			shown := view.NewFleetSweep(fleet.Size())
			progress, done := view.NewProgress(a.stderr, a.env), 0
			shown.Breakers = fleet.Sweep(cmd.Context(), mostBreakers, func(at report.Target, answer *report.Answer, asked bool, err error) {
				shown.Add(at, answer, asked, err)
				progress.Asked(&done, fleet.Size())
			})
			progress.Clear()
			shown.Sort()
			if err := a.write(shown, func(p *view.Printer) { p.FleetSweep(shown) }); err != nil {
				return err
			}
			return exit.Attention(len(shown.Silent)+len(shown.NotAsked) > 0)
		},
	}
	fleetFlags(cmd, &o)
	cmd.Flags().IntVar(&mostBreakers, "max-breakers", 2, "ask no more once the breaker is open on more nodes than this")
	return cmd
}
