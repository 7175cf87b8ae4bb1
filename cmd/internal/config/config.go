package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// The places where nobody names another.
const (
	DefaultFile    = "/etc/orphan-reaper/config.yaml"
	DefaultRootDir = "/var/lib/kubelet"
)

// Config is what holds for one call: the defaults, the configuration file over them, the
// flags over both. It holds no secrets.
type Config struct {
	RootDir         string
	Mode            string // modeObserve or modeEnforce
	Hold            time.Duration
	HoldReported    time.Duration
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
	APIUnreachable  string // unreachableKeep or unreachableIgnore
	CNICacheDir     string
	CNIDataDir      string
	CNIConfDir      string
	CNIOlderThan    time.Duration
	MetricsFile     string // auto, none or a path
	// WebListenAddresses are HOST:PORT or the word systemd, each; without one no port is open.
	WebListenAddresses []string
	WebConfigFile      string // none or a path
	WebTokenReview     string // none, in-cluster or a kubeconfig's path
	OrphanReport       string // none, in-cluster or a kubeconfig's path
	LogLevel           string
	LogFormat          string // auto, text, json or journal
	// The kubelet's credentials are none or a path, each; the key may be in the
	// certificate's file.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string

	// File is the configuration file that was read, "" where there is none.
	File string
	// sources says where each value came from, by key.
	sources map[string]valueOrigin
	unused  []string // notes about flags and sections of the file that have no effect any more
}

// valueOrigin is where a value came from.
type valueOrigin struct {
	text  string // FILE:LINE, "flag --NAME" or how the program found it out
	named bool   // a flag or the file gave it
}

const sourceDefault = "default"

// Default returns what holds where nobody says otherwise.
func Default() Config {
	return Config{
		RootDir:         DefaultRootDir,
		Mode:            ModeEnforce,
		Hold:            5 * time.Minute,
		HoldReported:    time.Minute,
		Settle:          5 * time.Minute,
		Confirm:         5 * time.Minute,
		Retention:       24 * time.Hour,
		StateDir:        "/var/lib/orphan-reaper",
		LogSources:      []string{Auto},
		JournalUnits:    parsers.KubeletUnits(),
		LogFiles:        []string{"/var/log/messages", "/var/log/syslog"},
		RuntimeEndpoint: Auto,
		NodeNamespaces:  Auto,
		NodeRoot:        "/",
		CgroupRoot:      "/sys/fs/cgroup",
		Kubeconfig:      None,
		NodeName:        Auto,
		APIUnreachable:  unreachableKeep,
		CNICacheDir:     "/var/lib/cni",
		CNIDataDir:      "/var/lib/cni/networks",
		CNIConfDir:      "/etc/cni/net.d",
		CNIOlderThan:    24 * time.Hour,
		MetricsFile:     Auto,
		WebConfigFile:   None,
		WebTokenReview:  None,
		OrphanReport:    None,
		LogLevel:        "info",
		LogFormat:       Auto,

		KubeletTokenFile: None, KubeletClientCertificate: None, KubeletClientKey: None,

		sources: map[string]valueOrigin{},
	}
}

// PodsDir returns the directory that holds a directory for each pod.
func (c Config) PodsDir() string { return filepath.Join(c.RootDir, "pods") }

// Observe reports whether nothing may be changed.
func (c Config) Observe() bool { return c.Mode != ModeEnforce }

// Begins says in words, as of the time now, what a daemon that starts now does, how to see that before,
// and how to have it otherwise. seen says that an earlier look may have left holds in the state directory: they go on.
func (c Config) Begins(now time.Time, seen bool) string {
	if c.Observe() {
		return "changes nothing (mode observe); orphan-reaper scan shows what mode: enforce would remove"
	}
	first := min(c.HoldReported, c.Hold)
	from := "from " + human.Clock(now.Add(first), now) + " (hold_reported " + human.Span(first) + ", hold " + human.Span(c.Hold) + ")"
	if seen {
		from = "at once: what was already seen dead for its hold (" + human.Span(c.Hold) +
			"), in mode observe or by an earlier sweep, is moved at the first look, " +
			"files of CNI too"
	}
	return "enforces " + from + "; orphan-reaper scan shows what would be removed, mode: observe only looks"
}

// Waive reports whether there is neither kubelet nor runtime here (--runtime-endpoint none).
func (c Config) Waive() bool { return c.RuntimeEndpoint == None }

// Source says where the value of a key came from: "flag --NAME", FILE:LINE, "default" (with
// the reason where a kubelet might have told otherwise), or "discovered: …".
func (c Config) Source(key string) string {
	if s := c.sources[key]; s.text != "" {
		return s.text
	}
	return sourceDefault
}

// Named reports whether a flag or the file gave the key's value.
func (c Config) Named(key string) bool { return c.sources[key].named }

// Diff names the keys whose values differ in another configuration: those that a running
// daemon takes over at once, and those that need a restart. A root directory that was
// discovered may come and go with the kubelet; it counts like any other.
func (c Config) Diff(other Config) (live, needsRestart []string) {
	for i := range Settings {
		s := &Settings[i]
		if slices.Equal(s.Values(&c), s.Values(&other)) {
			continue
		}
		if s.Live {
			live = append(live, s.Key)
		} else {
			needsRestart = append(needsRestart, s.Key)
		}
	}
	return live, needsRestart
}

// Input is what a configuration is made from, beside the defaults.
type Input struct {
	File  string              // --config, "" for the usual file where there is one
	Usual string              // the file that is read where no other is named
	Given map[string][]string // the settings' flags as they were given, by flag
	// Dir is where the relative paths of File and Given begin, as for the flags of another process;
	// nil for the working directory. It is asked only where one is relative.
	Dir func() (string, error)
	// Discover finds the root directory of the kubelet that runs here, and says in words where
	// it was read. It is false, and the words say why, where only a person can choose.
	Discover func(context.Context) (dir, origin string, ok bool)
}

// place is the path that name means, a name of File or Given.
func (in Input) place(name string) (string, error) {
	if in.Dir == nil || filepath.IsAbs(name) {
		return name, nil
	}
	dir, err := in.Dir()
	if err != nil {
		return "", fmt.Errorf("cannot find the directory of %s: %w", name, err)
	}
	return filepath.Join(dir, name), nil
}

// Load makes the configuration of one call. An error carries exit code 2, but not that of
// Input.Dir. A daemon calls it again to reload.
func Load(ctx context.Context, in Input) (Config, error) {
	c := Default()
	file, explicit := in.File, in.File != ""
	if !explicit {
		file = in.Usual
		if given := in.Given["node-root"]; len(given) > 0 {
			file = filepath.Join(last(given), file)
		}
	}
	file, err := in.place(file)
	if err != nil {
		return Config{}, err
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
		return Config{}, exit.Usagef(unsafe.mend, "cannot use the configuration: %w", err)
	case explicit || !errors.Is(err, fs.ErrNotExist):
		return Config{}, exit.Usagef("orphan-reaper config print shows what holds without a file", "cannot read the configuration: %w", err)
	}
	if err := c.applyFlags(in); err != nil {
		return Config{}, err
	}
	c.usualPlaces()
	c.discover(ctx, in.Discover)
	if err := c.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// applyFlags lets the flags win. A relative path is one below the working directory, or Input.Dir.
func (c *Config) applyFlags(in Input) error {
	for i := range Settings {
		s := &Settings[i]
		values, ok := in.Given[s.Flag]
		if !ok {
			continue
		}
		if err := s.set(c, values); err != nil {
			return exit.Usagef("", "--%s: %w", s.Flag, err)
		}
		c.sources[s.Key] = valueOrigin{"flag --" + s.Flag, true}
	}
	for _, name := range retiredFlags {
		if _, ok := in.Given[name]; ok {
			c.unused = append(c.unused, "--"+name+": "+retiredNote)
		}
	}
	for _, p := range c.paths() {
		if _, flag := in.Given[p.flag]; !flag || !isPath(*p.value) {
			continue
		}
		name, err := in.place(*p.value)
		if err != nil {
			return err
		}
		abs, err := filepath.Abs(name)
		if err != nil {
			return exit.Usagef("", "--%s: %w", p.flag, err)
		}
		*p.value = abs
	}
	return nil
}

// OtherNodeRoot reports whether the usual places are below another directory than /: then nothing
// that this machine has in them is read or written.
func (c Config) OtherNodeRoot() bool { return c.NodeRoot != "/" }

// usualPlaces puts each path that nobody named below the node's root.
func (c *Config) usualPlaces() {
	for _, p := range c.paths() {
		if !c.Named(p.key) && isPath(*p.value) {
			*p.value = filepath.Join("/", c.NodeRoot, *p.value)
		}
	}
}

// discover fills in what nobody named: the running kubelet's root directory, and the
// quarantine below it.
func (c *Config) discover(ctx context.Context, find func(context.Context) (dir, origin string, ok bool)) {
	if !c.Named("root_dir") && find != nil {
		dir, origin, ok := find(ctx)
		if ok && c.OtherNodeRoot() && !within(dir, c.NodeRoot) {
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

// Take takes over the values of the named keys, with where they came from.
func (c Config) Take(next Config, keys []string) Config {
	c.sources = maps.Clone(c.sources)
	for i := range Settings {
		s := &Settings[i]
		if !slices.Contains(keys, s.Key) {
			continue
		}
		if err := s.set(&c, s.Values(&next)); err != nil {
			continue // it was read from the same text a moment ago
		}
		c.sources[s.Key] = next.sources[s.Key]
	}
	return c
}
