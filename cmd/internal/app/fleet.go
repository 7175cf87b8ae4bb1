package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/cluster"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// FleetOptions select the nodes that are asked, and how they are asked.
type FleetOptions struct {
	Targets []string // URL or NODE=URL, each
	From    string   // a file with a target in each line, "-" for Stdin, "" for none
	Stdin   io.Reader
	// Service is NAMESPACE/NAME of the Service whose endpoints are asked as well, "" for none.
	Service string
	APIServer
	CAFile     string // "" for the system's authorities
	ServerName string // in the certificates of all nodes, "" for each node's address
	User       string // "" for none
	// PasswordFile holds the user's password in its first line; "" for none.
	PasswordFile string

	Parallel int
	Patience time.Duration
}

// Fleet is the nodes that are asked, and a client for them.
type Fleet struct {
	cluster.Client

	Targets []report.Target
}

// OpenFleet reads which nodes are asked, and the credentials for them.
func OpenFleet(ctx context.Context, o FleetOptions) (*Fleet, error) {
	f := &Fleet{Client: cluster.Client{Parallel: o.Parallel, Patience: o.Patience, User: o.User}}
	switch {
	case o.Parallel < 1 || o.Patience <= 0:
		return nil, exit.Usagef("", "--parallel and --timeout must be greater than 0")
	case (o.User == "") != (o.PasswordFile == ""):
		return nil, exit.Usagef("", "--user and --password-file belong together")
	}
	if err := f.read(ctx, o); err != nil {
		return nil, err
	}
	if err := f.checkClear(o); err != nil {
		return nil, err
	}
	return f, f.credentials(o)
}

// credentials reads the password for the daemons, and the authority of their certificates.
func (f *Fleet) credentials(o FleetOptions) error {
	if o.PasswordFile != "" {
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return fmt.Errorf("cannot read the password: %w", err)
		}
		f.Password, _, _ = strings.Cut(string(text), "\n")
	}
	f.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.CAFile)
	if err != nil {
		return fmt.Errorf("cannot read the authority's certificate: %w", err)
	}
	f.TLS.RootCAs = x509.NewCertPool()
	if !f.TLS.RootCAs.AppendCertsFromPEM(text) {
		return exit.Usagef("", "%s holds no certificate in PEM", o.CAFile)
	}
	return nil
}

// read reads the targets of the arguments, the file and the Service. It drops duplicates.
func (f *Fleet) read(ctx context.Context, o FleetOptions) error {
	addresses := slices.Clone(o.Targets)
	if o.From != "" {
		in, err := o.openInput(o.From)
		if err != nil {
			return fmt.Errorf("cannot read the list of nodes: %w", err)
		}
		defer closeQuietly(in)
		text, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("cannot read the list of nodes: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				addresses = append(addresses, line)
			}
		}
	}
	for _, address := range addresses {
		t, err := cluster.ParseTarget(address)
		if err != nil {
			return exit.Usagef("", "%w", err)
		}
		f.Targets = append(f.Targets, t)
	}
	if o.Service != "" {
		found, err := daemonsOf(ctx, o)
		if err != nil {
			return err
		}
		f.Targets = append(f.Targets, found...)
	}
	seen := map[string]bool{}
	f.Targets = slices.DeleteFunc(f.Targets, func(t report.Target) bool {
		again := seen[t.URL]
		seen[t.URL] = true
		return again
	})
	if len(f.Targets) == 0 {
		return errNoTarget()
	}
	return nil
}

// openInput opens a file that the operator gave, "-" for standard input.
func (o *FleetOptions) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(o.Stdin), nil
	}
	return os.Open(name)
}

func errNoTarget() error {
	return exit.Usagef("name daemons as http://HOST:PORT, a file of them with --from, or their Service with --service", "no node is named")
}

// daemonsOf finds the daemons behind the Service.
func daemonsOf(ctx context.Context, o FleetOptions) ([]report.Target, error) {
	namespace, name, ok := strings.Cut(o.Service, "/")
	if !ok || namespace == "" || name == "" || strings.Trim(namespace+name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, exit.Usagef("", "--service %q is not NAMESPACE/NAME", o.Service)
	}
	server, err := o.open(time.Now())
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if o.CAFile != "" || o.ServerName != "" {
		scheme = "https"
	}
	found, err := cluster.Daemons(ctx, server, cluster.Service{Namespace: namespace, Name: name}, scheme)
	if err == nil && len(found) == 0 {
		err = exit.Failf("kubectl get service --all-namespaces shows its name; the chart makes it with web.expose=true",
			"the Service %s has no endpoints, or there is none", o.Service)
	}
	return found, err
}

// checkClear refuses to send a password without TLS: others could read it in the network, and on this host a process
// that opens the port while the daemon is down would receive it.
func (f *Fleet) checkClear(o FleetOptions) error {
	for _, t := range f.Targets {
		if o.User != "" && strings.HasPrefix(t.URL, "http://") {
			return exit.Usagef("use https:// (for a Service: --ca-file or --tls-server-name), or leave out --user: on the loopback address none is needed",
				"%s has no TLS, so another process or host could read the password", t.URL)
		}
	}
	return nil
}

// MostBreakers returns how many open breakers --max-breakers allows: a number, or a share of the nodes such as 1%, rounded up.
func (f *Fleet) MostBreakers(text string) (int, error) {
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case n < 0:
		return 0, exit.Usagef("0 stops at the first node whose breaker is open", "--max-breakers %s is negative", text)
	case err != nil || share && n > 100:
		return 0, exit.Usagef("", "--max-breakers %q is no number such as 2, and no share such as 1%%", text)
	case share:
		return (len(f.Targets)*n + 99) / 100, nil
	}
	return n, nil
}

// APIServer selects the API server of an operator's command.
type APIServer struct {
	Kubeconfig string // "" to find it as kubectl does
	Context    string // "" for the current one
	Env        func(string) string
}

// open returns the API server of the named kubeconfig, of $KUBECONFIG, of ~/.kube/config, or of the cluster in which this runs
// as a pod, in this order.
func (a *APIServer) open(now time.Time) (*kube.Server, error) {
	var list []string
	if a.Kubeconfig == "" {
		list = filepath.SplitList(a.Env("KUBECONFIG"))
		if home := a.Env("HOME"); len(list) == 0 && home != "" {
			list = []string{filepath.Join(home, ".kube", "config")}
		}
	}
	s, err := kube.ReadPersonal(a.Kubeconfig, list, a.Context, now)
	switch refused, ok := errors.AsType[*kube.RefusedError](err); {
	case ok:
		return nil, &exit.Error{
			Code: exit.UsageCode, Err: refused,
			Hint: "run it as a pod in the cluster, or use a kubeconfig with a token: kubectl create token SERVICEACCOUNT (docs/fleet.md)",
		}
	case err != nil || s != nil:
		return s, err
	case a.Env("KUBERNETES_SERVICE_HOST") == "":
		return nil, exit.Usagef("name a kubeconfig with --kubeconfig",
			"no API server is named: there is no KUBECONFIG and no ~/.kube/config, and this is no pod")
	}
	return kube.InCluster(now)
}
