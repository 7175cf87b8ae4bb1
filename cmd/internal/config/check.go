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

// isPath reports whether a value is a path. auto and none never are: for a setting without these words they are more probably
// an error than a file's name.
func isPath(v string) bool { return v != "" && v != Auto && v != None }

// problems collects errors, each with the place of its value.
type problems struct {
	c    *Config
	errs []error
}

// add adds an error of a key, with the flag or the line of the file that has the value.
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

// check returns everything that is wrong with the values.
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
	for i := range Settings {
		if d, ok := Settings[i].field(c).(*time.Duration); ok && *d < 0 {
			p.add(Settings[i].Key, "%s is negative", human.Span(*d))
		}
	}
	if c.Confirm == 0 && c.Hold != 0 {
		p.add("confirm", "0s works only with --hold 0s") // for tests and demos
	}
	if c.MaxPerLook < 0 {
		p.add("max_per_look", "%d is negative; 0 is no limit", c.MaxPerLook)
	}
}

func (c *Config) checkPaths(p *problems) {
	for i := range Settings {
		for _, path := range Settings[i].paths(c) {
			key, v := Settings[i].Key, *path
			switch {
			case v == "":
				p.add(key, "is empty")
			case clean.Text(v) != v:
				p.add(key, "%s holds a character that cannot be printed", strconv.Quote(v))
			case !filepath.IsAbs(v):
				p.add(key, "%s is not an absolute path", strconv.Quote(v))
			default:
				*path = filepath.Clean(v)
			}
		}
	}
	if isPath(c.MetricsFile) && !strings.HasSuffix(c.MetricsFile, ".prom") {
		p.add("metrics_file", "%s does not end in .prom, and the node exporter reads no other", strconv.Quote(c.MetricsFile))
	}
	for _, dir := range []struct{ key, path string }{{"quarantine_dir", c.QuarantineDir}, {"state_dir", c.StateDir}} {
		if !filepath.IsAbs(c.RootDir) || !filepath.IsAbs(dir.path) {
			continue // checked above
		}
		if within(dir.path, c.PodsDir()) || within(c.PodsDir(), dir.path) {
			p.add(dir.key, "%s and the pods directory %s lie in one another", dir.path, c.PodsDir())
		}
	}
	if within(c.StateDir, c.QuarantineDir) {
		p.add("state_dir", "%s lies in the quarantine %s", c.StateDir, c.QuarantineDir)
	}
}

// remakeTime is the longest time after which a kubelet creates a living pod's directory again. A pod worker runs every 60 to
// 90 s (syncFrequency with jitter). A pod that waits for its volumes holds its worker for podAttachAndMountTimeout, 2m3s, and
// a back-off of 10 to 15 s (seen on 1.30: 165 s from one try to the next).
const remakeTime = 3 * time.Minute

// Notes lists settings that are allowed and probably a mistake.
func (c Config) Notes() []string {
	var notes []string
	if c.Confirm < remakeTime && !c.Waive() {
		notes = append(notes, fmt.Sprintf("confirm: %s is shorter than the %s within which a kubelet makes a living pod's directory again",
			human.Span(c.Confirm), human.Span(remakeTime)))
	}
	if c.Hold == 0 && !c.Waive() {
		notes = append(notes, "hold: with 0s one look is enough to move a pod to quarantine")
	}
	if !c.journald() && c.Source("journal_units") != sourceDefault {
		notes = append(notes, "journal_units: not used, since log_sources names no journald")
	}
	if slices.Equal(c.LogSources, []string{"journald"}) && c.Source("log_files") != sourceDefault {
		notes = append(notes, "log_files: not used, since log_sources names only journald")
	}
	return notes
}

// within reports whether path is dir or is below it, by their names.
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

// checkAsked checks the settings of the kubelet's port and the API server. It does not read the files, which may be created
// later: config check and each look do.
func (c *Config) checkAsked(p *problems) {
	if c.KubeletClientKey != None && c.KubeletClientCertificate == None {
		p.add("kubelet_client_key", "kubelet_client_certificate names no file")
	}
	// A node's name is a DNS subdomain, as the API server checks.
	if n := c.NodeName; n == "" || len(n) > 253 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		p.add("node_name", "%s is not the name of a node", strconv.Quote(n))
	}
}

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
}

// isHost reports whether s is a host that net.Listen accepts. IPv4 may have brackets: a manifest writes "[$(HOST_IP)]:PORT" for
// both families.
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
