package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// namedPath is one path of the configuration.
type namedPath struct {
	flag, key string
	value     *string
}

// paths returns every value that is a path.
func (c *Config) paths() []namedPath {
	ps := []namedPath{
		{"node-root", "node_root", &c.NodeRoot},
		{"root-dir", "root_dir", &c.RootDir},
		{"quarantine-dir", "quarantine_dir", &c.QuarantineDir},
		{"state-dir", "state_dir", &c.StateDir},
		{"cgroup-root", "cgroup_root", &c.CgroupRoot},
		{"kubelet-token-file", "kubelet_token_file", &c.KubeletTokenFile},
		{"kubelet-client-certificate", "kubelet_client_certificate", &c.KubeletClientCertificate},
		{"kubelet-client-key", "kubelet_client_key", &c.KubeletClientKey},
		{"kubeconfig", "kubeconfig", &c.Kubeconfig},
		{"cni-cache-dir", "cni_cache_dir", &c.CNICacheDir},
		{"cni-data-dir", "cni_data_dir", &c.CNIDataDir},
		{"cni-conf-dir", "cni_conf_dir", &c.CNIConfDir},
		{"metrics-file", "metrics_file", &c.MetricsFile},
		{"web-config-file", "web.config_file", &c.WebConfigFile},
	}
	for _, server := range []namedPath{
		{"web-token-review", "web.token_review", &c.WebTokenReview},
		{"orphan-report", "orphan_report", &c.OrphanReport},
	} {
		if *server.value != InCluster {
			ps = append(ps, server)
		}
	}
	for i := range c.LogFiles {
		ps = append(ps, namedPath{"log-file", "log_files", &c.LogFiles[i]})
	}
	return ps
}

// mayBeNone are the paths' keys that take the word none.
var mayBeNone = []string{
	"kubelet_token_file", "kubelet_client_certificate", "kubelet_client_key", "kubeconfig", "metrics_file", "web.config_file",
	"web.token_review", "orphan_report",
}

// isPath reports whether a value that may be a path is one, and not a word that stands for
// one or for none.
func isPath(v string) bool { return v != "" && v != Auto && v != None }

// problems collects what is wrong, each with the place that says so.
type problems struct {
	c    *Config
	errs []error
}

// add tells a problem of a key: by its flag where a flag gave the value, by file and line
// where the file did.
func (p *problems) add(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch source := p.c.Source(key); {
	case strings.HasPrefix(source, "flag "):
		text = strings.TrimPrefix(source, "flag ") + ": " + text
	case p.c.File != "" && strings.HasPrefix(source, p.c.File+":"):
		text = source + ": " + key + ": " + text
	default:
		text = key + ": " + text
	}
	p.errs = append(p.errs, errors.New(text))
}

// check says what is wrong with the values, all at once.
func (c *Config) check() error {
	p := &problems{c: c}
	c.checkNumbers(p)
	c.checkPaths(p)
	c.checkSources(p)
	c.checkRuntime(p)
	if c.OtherNodeRoot() && c.NodeNamespaces != Self {
		p.add("node_root", "another directory than / works only with --node-namespaces self")
	}
	c.checkAsked(p)
	c.checkWeb(p)
	if len(p.errs) == 0 {
		return nil
	}
	return &exit.Error{
		Code: exit.UsageCode, Err: errors.Join(p.errs...),
		Hint: "orphan-reaper run --help describes every setting",
	}
}

func (c *Config) checkNumbers(p *problems) {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"hold", c.Hold},
		{"hold_reported", c.HoldReported},
		{"settle", c.Settle},
		{"confirm", c.Confirm},
		{"retention", c.Retention},
		{"cni_older_than", c.CNIOlderThan},
	} {
		if d.value < 0 {
			p.add(d.key, "%s is negative", human.Span(d.value))
		}
	}
	if c.Confirm == 0 && c.Hold != 0 {
		// Without the wait nothing proves the hold's evidence: tests and demos only.
		p.add("confirm", "0s works only with --hold 0s")
	}
	if c.HoldReported == 0 && c.Hold != 0 {
		p.add("hold_reported", "0s works only with --hold 0s")
	}
	if c.MaxPerLook < 0 {
		p.add("max_per_look", "%d is negative; 0 is no limit", c.MaxPerLook)
	}
}

func (c *Config) checkPaths(p *problems) {
	for _, path := range c.paths() {
		v := *path.value
		switch {
		case v == "":
			p.add(path.key, "is empty")
		case v == Auto && path.key != "metrics_file", v == None && !slices.Contains(mayBeNone, path.key):
			p.add(path.key, "%s is not a path", strconv.Quote(v))
		case !isPath(v):
		case clean.Text(v) != v:
			p.add(path.key, "%s holds a character that cannot be printed", strconv.Quote(v))
		case !filepath.IsAbs(v):
			p.add(path.key, "%s is not an absolute path", strconv.Quote(v))
		default:
			*path.value = filepath.Clean(v)
		}
	}
	if isPath(c.MetricsFile) && !strings.HasSuffix(c.MetricsFile, ".prom") {
		p.add("metrics_file", "%s does not end in .prom, and the node exporter reads no other", strconv.Quote(c.MetricsFile))
	}
	for _, dir := range []struct{ key, path string }{{"quarantine_dir", c.QuarantineDir}, {"state_dir", c.StateDir}} {
		if !filepath.IsAbs(c.RootDir) || !filepath.IsAbs(dir.path) {
			continue // That is told already.
		}
		if within(dir.path, c.PodsDir()) || within(c.PodsDir(), dir.path) {
			p.add(dir.key, "%s and the pods directory %s lie in one another", dir.path, c.PodsDir())
		}
	}
	if within(c.StateDir, c.QuarantineDir) {
		p.add("state_dir", "%s lies in the quarantine %s", c.StateDir, c.QuarantineDir)
	}
}

// remakeTime is how long a kubelet takes at most to make a living pod's directory again.
// Its pod workers come by every 60 to 90 s (syncFrequency with jitter); but a pod that
// waits for its volumes holds its worker for podAttachAndMountTimeout, 2m3s, and a
// back-off of 10 to 15 s (seen on 1.30: 165 s from one try to the next).
const remakeTime = 3 * time.Minute

// Notes says what is allowed and yet may not be what was meant.
func (c Config) Notes() []string {
	notes := slices.Clone(c.unused)
	if c.Confirm < remakeTime && !c.Waive() {
		notes = append(notes, fmt.Sprintf("confirm: %s is shorter than the %s within which a kubelet makes a living pod's directory again",
			human.Span(c.Confirm), human.Span(remakeTime)))
	}
	if c.Hold == 0 && !c.Waive() {
		notes = append(notes, "hold: with 0s one look is enough to move a pod to quarantine")
	}
	if c.Kubeconfig == None && c.Source("api_unreachable") != sourceDefault {
		notes = append(notes, "api_unreachable: not used, since kubeconfig names no API server")
	}
	if c.Kubeconfig == None && c.OrphanReport == None && len(c.WebListenAddresses) == 0 && c.Source("node_name") != sourceDefault {
		notes = append(notes, "node_name: not used, since neither kubeconfig nor orphan_report names an API server, and no HTTP is answered")
	}
	if c.Kubeconfig != None && c.Waive() {
		notes = append(notes, "kubeconfig: with --runtime-endpoint none no pod is shown to run here, so that the API server's list only adds reasons to keep")
	}
	if !c.journald() && c.Source("journal_units") != sourceDefault {
		notes = append(notes, "journal_units: not used, since log_sources names no journald")
	}
	if slices.Equal(c.LogSources, []string{"journald"}) && c.Source("log_files") != sourceDefault {
		notes = append(notes, "log_files: not used, since log_sources names only journald")
	}
	return notes
}

// within reports whether path is dir or lies below it, by their names.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (c *Config) checkSources(p *problems) {
	switch {
	case len(c.LogSources) == 0:
		p.add("log_sources", "is empty")
	case len(c.LogSources) > 1 && slices.Contains(c.LogSources, Auto):
		p.add("log_sources", "auto stands alone")
	}
	if c.journald() && len(c.JournalUnits) == 0 {
		p.add("journal_units", "is empty")
	}
	if slices.Contains(c.LogSources, "file") && len(c.LogFiles) == 0 {
		p.add("log_files", "is empty")
	}
	for _, unit := range c.JournalUnits {
		// systemd.unit(5), "Unit names".
		if unit == "" || len(unit) > 255 || strings.ContainsAny(unit, "/ \t*?[") || strings.HasPrefix(unit, "-") || clean.Text(unit) != unit {
			p.add("journal_units", "%s is not the name of a unit", strconv.Quote(unit))
		}
	}
}

func (c *Config) journald() bool {
	return slices.Contains(c.LogSources, "journald") || slices.Contains(c.LogSources, Auto)
}

// checkAsked checks what concerns the kubelet and the API server. Their files are looked at
// by config check and at each look: they may come later, and are replaced meanwhile.
func (c *Config) checkAsked(p *problems) {
	if c.KubeletClientKey != None && c.KubeletClientCertificate == None {
		p.add("kubelet_client_key", "kubelet_client_certificate names no file")
	}
	// A node's name is a DNS subdomain, as the API server checks.
	if n := c.NodeName; n == "" || len(n) > 253 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		p.add("node_name", "%s is not the name of a node", strconv.Quote(n))
	}
}

// Systemd is the listening address that stands for the sockets that systemd opens.
const Systemd = "systemd"

func (c *Config) checkWeb(p *problems) {
	const key = "web.listen_addresses"
	for _, a := range c.WebListenAddresses {
		if a == Systemd {
			continue
		}
		i := strings.LastIndexByte(a, ':')
		if n, err := strconv.ParseUint(a[i+1:], 10, 16); i < 0 || err != nil || n == 0 {
			p.add(key, "%s is neither HOST:PORT nor %s", strconv.Quote(a), Systemd)
		} else if !isHost(a[:i]) {
			p.add(key, "%s: write an IP address of this node, or %s for all of them", strconv.Quote(a), a[i:])
		}
	}
	if len(c.WebListenAddresses) == 0 && c.WebConfigFile != None {
		p.add("web.config_file", "web.listen_addresses is empty")
	}
	switch {
	case c.WebTokenReview == None:
	case len(c.WebListenAddresses) == 0:
		p.add("web.token_review", "web.listen_addresses is empty")
	case c.WebConfigFile == None:
		p.add("web.token_review", "bearer tokens need TLS, and web.config_file names no file")
	}
}

// isHost reports whether net.Listen takes it before a colon and a port. IPv4 may stand in brackets:
// Kubernetes gives a pod its node's address without them, of whichever family it is.
func isHost(s string) bool {
	if s == "" || s == "localhost" {
		return true
	}
	inner, opened := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	addr, err := netip.ParseAddr(inner)
	return err == nil && opened == closed && (opened || addr.Is4())
}

func (c *Config) checkRuntime(p *problems) {
	const key = "runtime_endpoint"
	e := c.RuntimeEndpoint
	path, isURL := strings.CutPrefix(e, "unix://")
	switch {
	case e == Auto:
	case e == None && c.NodeNamespaces != Self:
		p.add(key, "none works only with --node-namespaces self")
	case e == None:
	case !isURL && strings.HasPrefix(e, "/"):
		p.add(key, "%s has no scheme: write unix://%s", strconv.Quote(e), e)
	case !isURL || !filepath.IsAbs(path) || clean.Text(path) != path:
		p.add(key, "%s is not one of unix:///PATH, auto, none", strconv.Quote(e))
	}
}
