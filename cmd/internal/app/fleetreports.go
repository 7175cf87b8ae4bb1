package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/cluster"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// WantsReports reports whether no daemon is to be asked, but what all nodes have reported to the API
// server or stands in a file. It returns an error where both are wanted.
func (o *FleetOptions) WantsReports(file string) (bool, error) {
	asks := len(o.Targets) > 0 || o.From != "" || o.Service != ""
	shows := o.User != "" || o.PasswordFile != "" || o.TokenFile != "" || o.CAFile != "" || o.ServerName != ""
	if file != "" && asks {
		return false, exit.Usagef("", "--reports and the daemons to ask (addresses, --from, --service) exclude each other")
	}
	if !asks && shows {
		return false, errNoTarget()
	}
	return !asks, nil
}

// FleetReports hands on the OrphanReport of each node, and the nodes that have none: from the file, - for
// Stdin, or from the API server where it is "". begin is called before the first of them, and again where the
// API server has to be asked anew: what was handed on before does not count then.
func FleetReports(
	ctx context.Context, o *FleetOptions, file string, begin func(), each func(at report.Target, r *report.Report, err error),
) (cluster.Doubt, error) {
	now := time.Now()
	if file == "" {
		o.Instead = "kubectl get nodes,orphans -o json | orphan-reaper fleet list --reports -"
		server, err := o.open(now)
		if err != nil {
			return cluster.Doubt{}, err
		}
		return cluster.Reports(ctx, server, now, begin, each)
	}
	in := o.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return cluster.Doubt{}, fmt.Errorf("cannot read the reports: %w", err)
		}
		defer closeQuietly(f)
		in = f
	}
	begin()
	return cluster.ReadReports(in, now, each)
}
