package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
)

const fleetHelp = `Name the daemons by their Service (--service NAMESPACE/NAME), or by the
addresses on which they answer (web_listen_address): https://HOST:PORT. They
answer only to a user and password of their web_config_file.

If a node does not answer, the command names it, and the exit code is 3.`

// fleetFlags are the flags of the fleet commands.
type fleetFlags struct {
	service, kubeconfig, ca, user, passwordFile string
	parallel                                    int
	timeout                                     time.Duration
}

func newFleetCommand(a *app) *cobra.Command {
	return newGroup("fleet", "Ask the daemons of many nodes", newFleetListCommand(a), newFleetSweepCommand(a))
}

func newFleetListCommand(a *app) *cobra.Command {
	var o fleetFlags
	cmd := &cobra.Command{
		Use: "list [URL...]", Short: "Show the orphans of many nodes: sums, then the worst nodes",
		Long: "Ask each daemon for its last scan. Show the sums of all nodes, then the worst\nnodes.\n\n" + fleetHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, targets, err := o.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			f := client.List(cmd.Context(), targets)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := a.print(f, func(w io.Writer) error { return show.FleetList(w, f) }); err != nil {
				return err
			}
			return needs(f.Operator)
		},
	}
	o.add(cmd)
	a.addOutput(cmd)
	return cmd
}

func newFleetSweepCommand(a *app) *cobra.Command {
	var o fleetFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "sweep [URL...]", Short: "Have the daemons of many nodes scan now",
		Long: `Ask each daemon to scan now. It then does what its settings and the facts allow,
as it does by itself: no hold becomes shorter. The exit code is 3 if a circuit
breaker is open. A node that observes is no failure.

` + fleetHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, targets, err := o.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			f := client.Sweep(cmd.Context(), targets, wait)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := a.print(f, func(w io.Writer) error { return show.FleetSweep(w, f, wait > 0) }); err != nil {
				return err
			}
			return needs(f.Operator)
		},
	}
	o.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait until each scan has ended, for 10 minutes or `DURATION` (--wait=30m)")
	cmd.Flags().Lookup("wait").NoOptDefVal = "10m"
	a.addOutput(cmd)
	return cmd
}

func (o *fleetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.service, "service", "", "`NAMESPACE/NAME` of the daemons' Service; their certificates are for NAME.NAMESPACE.svc")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "a `FILE` that names the API server (default: $KUBECONFIG, ~/.kube/config, the pod's service account)")
	f.StringVar(&o.ca, "ca", "", "a `FILE` with the authorities of the daemons' certificates, in PEM (default: the system's)")
	f.StringVar(&o.user, "user", "", "the user `NAME`")
	f.StringVar(&o.passwordFile, "password-file", "", "a `FILE` whose first line is the password")
	f.IntVar(&o.parallel, "parallel", 100, "ask this many nodes at once")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long a node has to answer")
}

// open returns a client, and the daemons to ask.
func (o *fleetFlags) open(ctx context.Context, args []string) (*fleet.Client, []fleet.Target, error) {
	switch {
	case (o.service == "") == (len(args) == 0):
		return nil, nil, usagef("fleet list --service NAMESPACE/NAME, or fleet list https://HOST:PORT", "name the daemons by --service or by URLs, and not by both")
	case o.user == "" || o.passwordFile == "":
		return nil, nil, usagef("--user NAME --password-file FILE", "a daemon answers only to a user with a password")
	case o.parallel < 1 || o.timeout <= 0:
		return nil, nil, usagef("--parallel 100 --timeout 5s", "--parallel and --timeout must be more than 0")
	}
	debug.SetGCPercent(50) // 5,000 answers and their connections need 39 MiB, and 70 with the usual setting
	password, err := os.ReadFile(o.passwordFile)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the password: %w", err)
	}
	line, _, _ := strings.Cut(string(password), "\n")
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "" {
		if conf.RootCAs, err = authorities(o.ca); err != nil {
			return nil, nil, err
		}
	}
	client := &fleet.Client{TLS: conf, User: o.user, Password: strings.TrimSuffix(line, "\r"), Parallel: o.parallel, Timeout: o.timeout}
	if o.service == "" {
		targets, err := parseTargets(args)
		return client, targets, err
	}
	service, err := fleet.ParseService(o.service)
	if err != nil {
		return nil, nil, usagef("", "%w", err)
	}
	conf.ServerName = service.Host()
	targets, err := fleet.Daemons(ctx, o.kubeconfig, service)
	return client, targets, err
}

// authorities reads certificates.
func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, failf("give a file with certificates in PEM", "%s has no certificate", file)
	}
	return pool, nil
}

// parseTargets parses addresses, each once.
func parseTargets(args []string) ([]fleet.Target, error) {
	var targets []fleet.Target
	for _, text := range args {
		t, err := fleet.ParseTarget(text)
		if err != nil {
			return nil, usagef("", "%w", err)
		}
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	return targets, nil
}
