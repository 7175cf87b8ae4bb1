package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/cluster"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// FleetOptions say which nodes are asked, and how.
type FleetOptions struct {
	Targets []string // URL or NODE=URL, each
	From    string   // a file with one a line, "-" for Stdin, "" for none
	Stdin   io.Reader
	// Service is NAMESPACE/NAME of the Service whose endpoints are asked as well, "" for none.
	Service string
	APIServer
	CAFile     string // "" for the system's authorities
	ServerName string // for which all nodes' certificates are, "" for each its address
	User       string // "" for none
	// PasswordFile holds the user's password in its first line, TokenFile a bearer token; "" for none.
	PasswordFile, TokenFile string

	Parallel int
	Patience time.Duration
}

// Fleet is many nodes, ready to be asked.
type Fleet struct {
	client  cluster.Client
	targets []report.Target
}

// OpenFleet reads who is to be asked, and with what.
func OpenFleet(ctx context.Context, o FleetOptions) (*Fleet, error) {
	f := &Fleet{client: cluster.Client{Parallel: o.Parallel, Patience: o.Patience, User: o.User}}
	switch {
	case o.Parallel < 1 || o.Patience <= 0:
		return nil, exit.Usagef("", "--parallel and --timeout want more than 0")
	case (o.User == "") != (o.PasswordFile == ""):
		return nil, exit.Usagef("", "--user and --password-file belong together")
	case o.User != "" && o.TokenFile != "":
		return nil, exit.Usagef("", "--user and --token-file exclude each other")
	}
	if err := f.read(ctx, o); err != nil {
		return nil, err
	}
	if err := f.checkClear(o); err != nil {
		return nil, err
	}
	return f, f.credentials(o)
}

// credentials reads what the daemons are to be shown, and how they are known.
func (f *Fleet) credentials(o FleetOptions) error {
	if o.PasswordFile != "" {
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return fmt.Errorf("cannot read the password: %w", err)
		}
		f.client.Password, _, _ = strings.Cut(string(text), "\n")
	}
	if o.TokenFile != "" {
		file, err := filepath.Abs(o.TokenFile)
		if err != nil {
			return err
		}
		if f.client.Token, err = kube.ReadToken(file); err != nil {
			return err
		}
	}
	f.client.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return fmt.Errorf("cannot read the authority's certificate: %w", err)
		}
		f.client.TLS.RootCAs = x509.NewCertPool()
		if !f.client.TLS.RootCAs.AppendCertsFromPEM(text) {
			return exit.Usagef("", "%s holds no certificate in PEM", o.CAFile)
		}
	}
	return nil
}

// read reads the targets. A target that is named twice is asked once.
func (f *Fleet) read(ctx context.Context, o FleetOptions) error {
	var targets []report.Target
	for _, line := range o.Targets {
		t, err := cluster.ParseTarget(line)
		if err != nil {
			return exit.Usagef("", "%w", err)
		}
		targets = append(targets, t)
	}
	if o.From != "" {
		err := eachLine(o.From, o.Stdin, func(n int, line string) error {
			t, err := cluster.ParseTarget(line)
			if err != nil {
				return exit.Usagef("", "%s:%d: %w", o.From, n, err)
			}
			targets = append(targets, t)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if o.Service != "" {
		found, err := daemonsOf(ctx, o)
		if err != nil {
			return err
		}
		targets = append(targets, found...)
	}
	seen := map[string]bool{}
	for _, t := range targets {
		if !seen[t.URL] {
			seen[t.URL] = true
			f.targets = append(f.targets, t)
		}
	}
	if len(f.targets) == 0 {
		return errNoTarget()
	}
	return nil
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

// checkClear refuses to send a password or token without TLS: others could read it on the way, and on this host
// whoever takes the port while the daemon is down would be handed it.
func (f *Fleet) checkClear(o FleetOptions) error {
	flag, secret := "--user", "password"
	if o.TokenFile != "" {
		flag, secret = "--token-file", "token"
	}
	for _, t := range f.targets {
		address, plain := strings.CutPrefix(t.URL, "http://")
		if o.User == "" && o.TokenFile == "" || !plain {
			continue
		}
		hint, who := "use https:// and --ca-file, or leave out "+flag, "everybody on the way could read"
		switch {
		case o.Service != "":
			hint = "with --ca-file or --tls-server-name the daemons of a Service are asked by https://"
		case byLoopback(address):
			hint = "leave out " + flag + ": by loopback none is needed; a daemon with basic_auth_users needs TLS as well: use https:// and --ca-file"
			who = "a process that holds that port while the daemon is down would get"
		}
		return exit.Usagef(hint, "%s has no TLS, so %s the %s", t.URL, who, secret)
	}
	return nil
}

// byLoopback reports whether HOST:PORT is asked for on this host.
func byLoopback(address string) bool {
	u := url.URL{Host: address}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// eachLine hands on the lines of a file that are not empty and no comments.
func eachLine(name string, stdin io.Reader, add func(n int, line string) error) error {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("cannot read the list of nodes: %w", err)
		}
		defer closeQuietly(file)
		in = file
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := add(n, line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read the list of nodes: %w", err)
	}
	return nil
}

// Size is how many nodes are asked.
func (f *Fleet) Size() int { return len(f.targets) }

// List asks each node for its report; each gets them one at a time, as they come.
func (f *Fleet) List(ctx context.Context, each func(at report.Target, r *report.Report, err error)) {
	f.client.List(ctx, f.targets, each)
}

// Sweep asks each node for a look, until more than mostBreakers have said that their breaker is
// open. asked is false for a node that was not asked for that.
func (f *Fleet) Sweep(ctx context.Context, mostBreakers int, each func(at report.Target, a *report.Answer, asked bool, err error)) (breakers int) {
	return f.client.Sweep(ctx, f.targets, mostBreakers, func(t report.Target, a *report.Answer, err error) {
		each(t, a, !errors.Is(err, cluster.ErrNotAsked), err)
	})
}
