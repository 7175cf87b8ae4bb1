package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// sources says where each value came from, by key.
	sources map[string]valueOrigin
}

// valueOrigin is where a value came from.
type valueOrigin struct {
	text  string // FILE:LINE, "flag --NAME" or how the program found it out
	named bool   // a flag or the file gave it
}

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

		sources: map[string]valueOrigin{},
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
	if s := c.sources[key]; s.text != "" {
		return s.text
	}
	return sourceDefault
}

// named reports whether a flag or the file gave the key's value.
func (c Config) named(key string) bool { return c.sources[key].named }

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

// input is what a configuration is made from, beside the defaults.
type input struct {
	File  string              // --config, "" for the usual file where there is one
	Usual string              // the file that is read where no other is named
	Given map[string][]string // the settings' flags as they were given, by flag
	// Discover finds the root directory of the kubelet that runs here, and says in words where
	// it was read. It is false, and the words say why, where only a person can choose.
	Discover func(context.Context) (dir, origin string, ok bool)
}

// loadConfig makes the configuration of one call. An error carries exit code 2. A daemon
// calls it again to reload.
func loadConfig(ctx context.Context, in input) (Config, error) {
	c := defaultConfig()
	file, explicit := in.File, in.File != ""
	if !explicit {
		file = in.Usual
		if given := in.Given["node-root"]; len(given) > 0 {
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
	if err := c.applyFlags(in.Given); err != nil {
		return Config{}, err
	}
	c.usualPlaces()
	c.discover(ctx, in.Discover)
	if err := c.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

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
		c.sources[s.key] = valueOrigin{"flag --" + s.flag, true}
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
		if !c.named(p.key) && isPath(*p.value) {
			*p.value = filepath.Join("/", c.NodeRoot, *p.value)
		}
	}
}

// discover fills in what nobody named: the running kubelet's root directory, and the
// quarantine below it.
func (c *Config) discover(ctx context.Context, find func(context.Context) (dir, origin string, ok bool)) {
	if !c.named("root_dir") && find != nil {
		dir, origin, ok := find(ctx)
		if ok && c.elsewhere() && !within(dir, c.NodeRoot) {
			ok, origin = false, fmt.Sprintf("the root directory of %s is not below %s", origin, c.NodeRoot)
		}
		if ok {
			c.RootDir, c.sources["root_dir"] = dir, valueOrigin{text: "discovered: " + origin}
		} else {
			// A guess: no look takes anything until it is the kubelet's (policy.Node.Agrees).
			c.sources["root_dir"] = valueOrigin{text: sourceDefault + ": " + origin}
		}
	}
	if c.QuarantineDir == "" {
		c.QuarantineDir = filepath.Join("/", c.RootDir, "orphan-reaper") // An empty root_dir is told by check.
		c.sources["quarantine_dir"] = valueOrigin{text: "default, below root_dir"}
	}
}

// take takes over the values of the named keys, with where they came from.
func (c Config) take(next Config, keys []string) Config {
	c.sources = maps.Clone(c.sources)
	for i := range settings {
		s := &settings[i]
		if !slices.Contains(keys, s.key) {
			continue
		}
		if err := s.set(&c, s.values(&next)); err != nil {
			continue // it was read from the same text a moment ago
		}
		c.sources[s.key] = next.sources[s.key]
	}
	return c
}
