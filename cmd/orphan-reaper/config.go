package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	defaultConfigFile = "/etc/orphan-reaper/config.yaml"
	defaultRootDir    = "/var/lib/kubelet"
)

// Config is what holds for one call: the defaults, the configuration file over them, the
// flags over both. It holds no secrets.
type Config struct {
	RootDir         string
	Mode            string // modeObserve or modeEnforce
	Hold            time.Duration
	Settle          time.Duration
	Confirm         time.Duration
	Retention       time.Duration
	MaxPerLook      int
	QuarantineDir   string
	StateDir        string
	LogSources      []string // auto alone, or journald and file in any order
	JournalUnits    []string
	LogFiles        []string
	RuntimeEndpoint string // auto, none or unix:///PATH
	NodeNamespaces  string // auto or self
	NodeRoot        string // below which the usual places are
	CgroupRoot      string
	Kubeconfig      string // none or a path
	NodeName        string // auto or a name
	RemoveSandboxes bool
	APIUnreachable  string // unreachableKeep or unreachableIgnore
	CNICacheDir     string
	CNIDataDir      string
	CNIConfDir      string
	CNIOlderThan    time.Duration
	MetricsFile     string // auto, none or a path
	LogLevel        string
	LogFormat       string // auto, text, json or journal
	// The kubelet's credentials are none or a path, each; the key may be in the
	// certificate's file.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string

	// File is the configuration file that was read, "" where there is none.
	File string
	// cniFiles is how many files of CNI are told one by one.
	cniFiles int
	// rootNamed says that a flag or the file gave RootDir.
	rootNamed bool
	// sources says where each value came from, by key.
	sources map[string]string
}

// The sources of a value, beside FILE:LINE of the file and "flag --NAME".
const sourceDefault = "default"

// defaultConfig returns what holds where nobody says otherwise.
func defaultConfig() Config {
	return Config{
		RootDir:         defaultRootDir,
		Mode:            modeEnforce,
		Hold:            5 * time.Minute,
		Settle:          5 * time.Minute,
		Confirm:         5 * time.Minute,
		Retention:       24 * time.Hour,
		StateDir:        "/var/lib/orphan-reaper",
		LogSources:      []string{auto},
		JournalUnits:    parsers.KubeletUnits(),
		LogFiles:        []string{"/var/log/messages", "/var/log/syslog"},
		RuntimeEndpoint: auto,
		NodeNamespaces:  auto,
		NodeRoot:        "/",
		CgroupRoot:      "/sys/fs/cgroup",
		Kubeconfig:      none,
		NodeName:        auto,
		APIUnreachable:  unreachableKeep,
		CNICacheDir:     "/var/lib/cni",
		CNIDataDir:      "/var/lib/cni/networks",
		CNIConfDir:      "/etc/cni/net.d",
		CNIOlderThan:    24 * time.Hour,
		MetricsFile:     auto,
		LogLevel:        "info",
		LogFormat:       auto,

		KubeletTokenFile: none, KubeletClientCertificate: none, KubeletClientKey: none,

		sources: map[string]string{},
	}
}

// PodsDir returns the directory that holds a directory for each pod.
func (c Config) PodsDir() string { return filepath.Join(c.RootDir, "pods") }

// Observe says whether nothing may be changed.
func (c Config) Observe() bool { return c.Mode != modeEnforce }

// Waive says whether there is neither kubelet nor runtime here (--runtime-endpoint none).
func (c Config) Waive() bool { return c.RuntimeEndpoint == none }

// Source says where the value of a key came from: "flag --NAME", FILE:LINE, "default" (with
// the reason where a kubelet might have told otherwise), or "discovered: …".
func (c Config) Source(key string) string {
	if s := c.sources[key]; s != "" {
		return s
	}
	return sourceDefault
}

// Diff names the keys whose values differ in another configuration: those that a running
// daemon takes over at once, and those that need a restart. A root directory that was
// discovered may come and go with the kubelet; it counts like any other.
func (c Config) Diff(other Config) (live, needsRestart []string) {
	for i := range settings {
		s := &settings[i]
		if slices.Equal(s.values(&c), s.values(&other)) {
			continue
		}
		if s.live {
			live = append(live, s.key)
		} else {
			needsRestart = append(needsRestart, s.key)
		}
	}
	return live, needsRestart
}

// config makes the configuration of this call. An error carries exit code 2. A daemon
// calls it again to reload.
func (a *app) config(ctx context.Context) (Config, error) {
	c := defaultConfig()
	file, explicit := a.configFile, a.configFile != ""
	if !explicit {
		file = a.deps.configFile
		if given := a.given["node-root"]; len(given) > 0 {
			file = filepath.Join(last(given), file)
		}
	}
	data, err := readConfigFile(file)
	switch {
	case err == nil:
		c.File = file
		if err := c.applyFile(file, data); err != nil {
			return Config{}, err
		}
	case isUnsafe(err):
		unsafe, _ := errors.AsType[*unsafeFileError](err)
		return Config{}, usagef(unsafe.mend, "cannot use the configuration: %w", err)
	case explicit || !errors.Is(err, fs.ErrNotExist):
		return Config{}, usagef("orphan-reaper config print shows what holds without a file", "cannot read the configuration: %w", err)
	}
	if err := c.applyFlags(a.given); err != nil {
		return Config{}, err
	}
	c.usualPlaces()
	c.discover(ctx, a.deps.discover)
	if err := c.check(); err != nil {
		return Config{}, err
	}
	c.cniFiles = mostShown
	return c, nil
}

// mostShown bounds the files of CNI that are told one by one, in the table and in JSON, of those
// that go and of those that stay: 300,000 in JSON took 2.4 GB. All of them are counted, and the
// archives have what was taken.
const mostShown = 1000

// applyFlags lets the flags win. A relative path is one below the working directory.
func (c *Config) applyFlags(given map[string][]string) error {
	for i := range settings {
		s := &settings[i]
		values, ok := given[s.flag]
		if !ok {
			continue
		}
		if err := s.set(c, values); err != nil {
			return usagef("", "--%s: %w", s.flag, err)
		}
		c.sources[s.key] = "flag --" + s.flag
	}
	for _, p := range c.paths() {
		if _, flag := given[p.flag]; !flag || !isPath(*p.value) {
			continue
		}
		abs, err := filepath.Abs(*p.value)
		if err != nil {
			return usagef("", "--%s: %w", p.flag, err)
		}
		*p.value = abs
	}
	return nil
}

// elsewhere reports whether the usual places are below another directory than /: then nothing
// that this machine has in them is read or written.
func (c Config) elsewhere() bool { return c.NodeRoot != "/" }

// usualPlaces puts each path that nobody named below the node's root.
func (c *Config) usualPlaces() {
	for _, p := range c.paths() {
		if c.sources[p.key] == "" && isPath(*p.value) {
			*p.value = filepath.Join("/", c.NodeRoot, *p.value)
		}
	}
}

// discover fills in what nobody named: the running kubelet's root directory, and the
// quarantine below it.
func (c *Config) discover(ctx context.Context, find discoverer) {
	if _, c.rootNamed = c.sources["root_dir"]; !c.rootNamed && find != nil {
		dir, origin, ok := find(ctx)
		if ok && c.elsewhere() && !within(dir, c.NodeRoot) {
			ok, origin = false, fmt.Sprintf("the root directory of %s is not below %s", origin, c.NodeRoot)
		}
		if ok {
			c.RootDir, c.sources["root_dir"] = dir, "discovered: "+origin
		} else {
			// A guess: no look takes anything until it is the kubelet's (policy.Node.Agrees).
			c.sources["root_dir"] = sourceDefault + ": " + origin
		}
	}
	if c.QuarantineDir == "" {
		c.QuarantineDir = filepath.Join("/", c.RootDir, "orphan-reaper") // An empty root_dir is told by check.
		c.sources["quarantine_dir"] = "default, below root_dir"
	}
}
