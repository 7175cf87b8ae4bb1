package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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
	group.AddCommand(a.withProgress(newFleetListCommand(a)), a.withProgress(newFleetSweepCommand(a)))
	return group
}

func fleetFlags(cmd *cobra.Command, o *app.FleetOptions) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.From, "from", "", "a `FILE` with one address on each line; - is stdin")
	f.IntVar(&o.Parallel, "parallel", 100, "ask this many nodes at once")
	f.DurationVar(&o.Patience, "timeout", 5*time.Second, "how long each node has to answer")
	f.StringVar(&o.Service, "service", "", "`NAMESPACE/NAME` of the daemons' Service; --ca-file or --tls-server-name make it ask by https")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "a `FILE` that names the API server (default: $KUBECONFIG, ~/.kube/config, the pod's service account)")
	f.StringVar(&o.Context, "context", "", "the `NAME` of a context in the kubeconfig (default: its current one)")
	f.StringVar(&o.CAFile, "ca-file", "", "the authority's certificates, in PEM (default: the system's)")
	f.StringVar(&o.ServerName, "tls-server-name", "", "the `NAME` in the certificates of all nodes (default: each node's address)")
	f.StringVar(&o.User, "user", "", "the user `NAME` for nodes that ask for one; only with https://")
	f.StringVar(&o.PasswordFile, "password-file", "", "a `FILE` whose first line is the password")
}

func newFleetListCommand(a *cli) *cobra.Command {
	var o app.FleetOptions
	var which ui.FleetScope
	var least string
	cmd := &cobra.Command{
		Use: "list [ADDRESS...]", Short: "Show the orphans of many nodes, and what needs you",
		Long: `Show the orphans of many nodes: sums by reason, driver and age first, then the
20 worst nodes, the pods that need you, and the nodes that do not answer.

` + fleetHelp,
		Example: "  orphan-reaper fleet list http://10.0.0.1:9477 http://10.0.0.2:9477\n" +
			"  orphan-reaper fleet list --from nodes.txt --reason mounted --sort bytes\n" +
			"  orphan-reaper fleet list --from nodes.txt -o json | jq '.pods[].uid'",
		Annotations: annotations(noSettings),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if which.All && which.NeedsPerson {
				return exit.Usagef("", "--all and --needs-person exclude each other")
			}
			if which.Top < 0 {
				return exit.Usagef("0 shows all", "--top %d is negative", which.Top)
			}
			if which.MinBytes, err = bytesOf(least); err != nil {
				return err
			}
			shown, err := a.fleetList(cmd.Context(), o, args, which)
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
	f := cmd.Flags()
	reasons := make([]string, 0, len(policy.Reasons()))
	for _, r := range policy.Reasons() {
		reasons = append(reasons, string(r))
	}
	f.Var(&choiceValue{&which.Reason, reasons, "REASON"}, "reason", "only nodes and pods with this REASON, such as mounted")
	f.StringVar(&which.Driver, "driver", "", "only nodes and pods with a volume of this `DRIVER`")
	f.StringVarP(&which.Namespace, "namespace", "n", "", "only pods of this `NAMESPACE`, and their nodes")
	f.StringVar(&least, "min-bytes", "0", "only nodes on which at least this `SIZE` lies, such as 10Gi")
	which.Sort = ui.FleetOrders[0]
	f.Var(&choiceValue{&which.Sort, ui.FleetOrders, "ORDER"}, "sort", "the order of nodes: "+strings.Join(ui.FleetOrders, ", "))
	f.IntVar(&which.Top, "top", 20, "show the first `N` nodes; 0 shows all")
	f.BoolVar(&which.All, "all", false, "show every node and every pod, and not only those that need you")
	f.BoolVar(&which.NeedsPerson, "needs-person", false, "show only the nodes that need you")
	return cmd
}

// bytesOf reads a size as Kubernetes writes it.
func bytesOf(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return 0, exit.Usagef("write one such as 500M or 10Gi", "--min-bytes %q is no size", text)
	}
	return q.Value(), nil
}

// fleetList asks the named daemons.
func (a *cli) fleetList(ctx context.Context, o app.FleetOptions, args []string, which ui.FleetScope) (*ui.FleetList, error) {
	o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
	fleet, err := app.OpenFleet(ctx, o)
	if err != nil {
		return nil, err
	}
	shown := ui.NewFleetList(len(fleet.Targets), which)
	work := progress.From(ctx)
	defer work.End()
	work.Begin("asking the nodes", "node", int64(len(fleet.Targets)))
	fleet.List(ctx, fleet.Targets, func(at report.Target, r *report.Report, err error) {
		shown.Add(at, r, err)
		work.Add(1)
	})
	return shown, nil
}

func newFleetSweepCommand(a *cli) *cobra.Command {
	var o app.FleetOptions
	var breakers string
	var wait time.Duration
	var dryRun bool
	cmd := &cobra.Command{
		Use: "sweep [ADDRESS...]", Short: "Have the daemons of many nodes look now",
		Long: `Ask the daemon of each node to look now, in a random order. It then does what
its settings and the facts allow, as it does by itself. No hold becomes shorter.

With --wait the command waits until each look has ended, and shows what was
moved, removed and kept. With --dry-run no node looks: it shows what the last
looks found. If the breaker of a node is open, the exit code is 3.

` + fleetHelp,
		Example: "  orphan-reaper fleet sweep --from nodes.txt --dry-run\n" +
			"  orphan-reaper fleet sweep --from nodes.txt --wait --max-breakers 1%\n" +
			"  orphan-reaper fleet sweep --user sweeper --password-file pw --ca-file ca.pem \\\n    https://10.0.0.1:9477",
		Annotations: annotations(noSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Targets, o.Stdin, o.Env = args, a.stdin, a.env
			fleet, err := app.OpenFleet(cmd.Context(), o)
			if err != nil {
				return err
			}
			most, err := fleet.MostBreakers(breakers)
			if err != nil {
				return err
			}
			shown := ui.NewFleetSweep(len(fleet.Targets))
			work := progress.From(cmd.Context())
			work.Begin("asking the nodes", "node", int64(len(fleet.Targets)))
			if dryRun {
				fleet.List(cmd.Context(), fleet.Targets, func(at report.Target, r *report.Report, err error) {
					shown.AddReport(at, r, err)
					work.Add(1)
				})
			} else {
				shown.Breakers = fleet.Sweep(cmd.Context(), fleet.Targets, most, wait, func(at report.Target, s *report.Swept, err error) {
					shown.Add(at, s, err)
					work.Add(1)
				})
			}
			work.End()
			shown.Sort()
			if err := a.write(shown, func(p *ui.Printer) { p.FleetSweep(shown) }); err != nil {
				return err
			}
			return exit.Attention(shown.NeedsPerson())
		},
	}
	fleetFlags(cmd, &o)
	f := cmd.Flags()
	f.StringVar(&breakers, "max-breakers", "2", "stop asking once the breaker is open on more nodes than this `NUMBER`, or share such as 1%")
	f.BoolVar(&dryRun, "dry-run", false, "have no node look, and show what the last looks found")
	f.DurationVar(&wait, "wait", 0, "wait until each look has ended, for 10 minutes or `DURATION` (--wait=30m)")
	f.Lookup("wait").NoOptDefVal = "10m"
	return cmd
}
