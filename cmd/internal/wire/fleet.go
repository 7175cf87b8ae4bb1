package wire

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
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/fanout"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// FleetOptions say which nodes are asked, and how.
type FleetOptions struct {
	Targets []string // URL or NODE=URL, each
	From    string   // a file with one a line, "-" for Stdin, "" for none
	Stdin   io.Reader
	CAFile  string // "" for the system's authorities
	User    string // "" for none
	// PasswordFile holds the user's password in its first line.
	PasswordFile string
	Parallel     int
	Patience     time.Duration
}

// Fleet is many nodes, ready to be asked.
type Fleet struct {
	client  fanout.Client
	targets []report.Target
}

// OpenFleet reads who is to be asked, and with what.
func OpenFleet(o FleetOptions) (*Fleet, error) {
	f := &Fleet{client: fanout.Client{Parallel: o.Parallel, Patience: o.Patience, User: o.User}}
	if o.Parallel < 1 || o.Patience <= 0 {
		return nil, exit.Usagef("", "--parallel and --timeout want more than 0")
	}
	if err := f.read(o); err != nil {
		return nil, err
	}
	if (o.User == "") != (o.PasswordFile == "") {
		return nil, exit.Usagef("", "--user and --password-file belong together")
	}
	if err := f.checkClear(o.User); err != nil {
		return nil, err
	}
	if o.PasswordFile != "" {
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the password: %w", err)
		}
		f.client.Password, _, _ = strings.Cut(string(text), "\n")
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the authority's certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, exit.Usagef("", "%s holds no certificate in PEM", o.CAFile)
		}
		f.client.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return f, nil
}

// read reads the targets. One that stands twice is asked once.
func (f *Fleet) read(o FleetOptions) error {
	lines, where := o.Targets, "an argument"
	seen := map[string]bool{}
	add := func(n int, line string) error {
		t, err := fanout.ParseTarget(line)
		if err != nil {
			if where != "an argument" {
				return exit.Usagef("", "%s:%d: %w", where, n, err)
			}
			return exit.Usagef("", "%w", err)
		}
		if !seen[t.URL] {
			seen[t.URL] = true
			f.targets = append(f.targets, t)
		}
		return nil
	}
	for _, line := range lines {
		if err := add(0, line); err != nil {
			return err
		}
	}
	if o.From != "" {
		where = o.From
		if err := eachLine(o.From, o.Stdin, add); err != nil {
			return err
		}
	}
	if len(f.targets) == 0 {
		return exit.Usagef("name daemons as http://HOST:PORT, or a file of them with --from", "no node is named")
	}
	return nil
}

// checkClear refuses to send a password where others can read it. What goes by loopback stays on this host.
func (f *Fleet) checkClear(user string) error {
	for _, t := range f.targets {
		address, plain := strings.CutPrefix(t.URL, "http://")
		if user == "" || !plain {
			continue
		}
		u := url.URL{Host: address}
		if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
			return exit.Usagef("use https:// and --ca-file, or leave out --user", "%s has no TLS, so everybody on the way could read the password", t.URL)
		}
	}
	return nil
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
		each(t, a, !errors.Is(err, fanout.ErrNotAsked), err)
	})
}
