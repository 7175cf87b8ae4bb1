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
)

// The usual places.
const (
	DefaultFile    = "/etc/orphan-reaper/config.yaml"
	DefaultRootDir = "/var/lib/kubelet"
)

// Config is the configuration of one call: the defaults, the configuration file over them, the flags over both. It
// holds no secrets. The table Settings describes each value.
type Config struct {
	RootDir, QuarantineDir, StateDir string
	Mode                             string // modeObserve or ModeEnforce
	Hold, Confirm, Retention         time.Duration
	MaxPerLook                       int
	LogSources                       []string // auto alone, or journald and file in any order
	JournalUnits, LogFiles           []string
	RuntimeEndpoint                  string // auto, none or unix:///PATH
	NodeNamespaces                   string // auto or self
	NodeRoot, CgroupRoot             string
	// KubeletTokenFile and the next three are none or a path, each. The key may be in the certificate's file.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string
	Kubeconfig                                                   string
	NodeName                                                     string // auto or a name
	APIUnreachable                                               string // unreachableKeep or UnreachableIgnore
	CNICacheDir, CNIDataDir, CNIConfDir                          string
	CNIOlderThan                                                 time.Duration
	MetricsFile                                                  string   // auto, none or a path
	WebListenAddresses                                           []string // HOST:PORT or systemd, each
	WebConfigFile                                                string   // none or a path
	LogLevel                                                     string
	LogFormat                                                    string // auto, text, json or journal

	// File is the configuration file that was read, "" if none was.
	File    string
	sources map[string]valueOrigin // where each value came from, by key
}

// valueOrigin is where a value came from.
type valueOrigin struct {
	text  string // FILE:LINE, "flag --NAME" or how the program found the value
	named bool   // by a flag or the file
}

const sourceDefault = "default"

// PodsDir returns the directory that holds a directory for each pod.
func (c Config) PodsDir() string { return filepath.Join(c.RootDir, "pods") }

// Observe reports whether nothing may be changed.
func (c Config) Observe() bool { return c.Mode != ModeEnforce }

// Begins describes what a daemon that starts now does, how to preview it, and how to change it.
func (c Config) Begins() string {
	if c.Observe() {
		return "changes nothing (mode observe); orphan-reaper scan shows what mode: enforce would remove"
	}
	return "enforces: it moves pods that were seen dead for hold (" + human.Span(c.Hold) +
		") and that the kubelet reports; what a sweep or mode observe saw before its start counts; orphan-reaper scan shows what would be removed, mode: observe only looks"
}

// Waive reports whether there is neither kubelet nor runtime here (--runtime-endpoint none).
func (c Config) Waive() bool { return c.RuntimeEndpoint == None }

// Source returns where the value of a key came from: "flag --NAME", FILE:LINE, "default" (with the reason if no kubelet was
// found), or "discovered: …".
func (c Config) Source(key string) string {
	if s := c.sources[key]; s.text != "" {
		return s.text
	}
	return sourceDefault
}

// Named reports whether a flag or the file has the key.
func (c Config) Named(key string) bool { return c.sources[key].named }

// Diff returns the keys whose values differ in another configuration: those that a reload changes, and those that
// need a restart.
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

// Input is the source of a configuration, beside the defaults.
type Input struct {
	File  string              // --config
	Usual string              // the file that is read without File, if it exists
	Given map[string][]string // the settings' flags as they were given, by flag
	// Theirs marks File and Given as those of another process, whose working directory is unknown.
	Theirs bool
	// Discover returns the root directory of the running kubelet and its origin. With ok false, origin is the reason
	// why an operator must set it.
	Discover func(context.Context) (dir, origin string, ok bool)
}

// check returns an error for a relative path of another process.
func (in Input) check(path string) error {
	if in.Theirs && !filepath.IsAbs(path) {
		return fmt.Errorf("cannot find %s: it is relative to the working directory of another process", path)
	}
	return nil
}

// Load returns the configuration of one call. Its errors have exit code 2, except that of a relative path of another process.
func Load(ctx context.Context, in Input) (Config, error) {
	c, err := in.withoutFlags()
	if err != nil {
		return Config{}, err
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

// withoutFlags returns the defaults with the values of the file over them.
func (in Input) withoutFlags() (Config, error) {
	c := Default()
	file, explicit := in.File, in.File != ""
	if !explicit {
		file = in.Usual
		if given := in.Given["node-root"]; len(given) > 0 {
			file = filepath.Join(given[len(given)-1], file)
		}
	}
	if err := in.check(file); err != nil {
		return c, err
	}
	data, err := readConfigFile(file)
	switch {
	case err == nil:
		c.File = file
		return c, c.applyFile(file, data)
	case exit.Code(err) == exit.UsageCode:
		return c, err
	case errors.Is(err, fs.ErrPermission):
		return c, exit.Usagef("", "cannot read the configuration: %w", err)
	case explicit || !errors.Is(err, fs.ErrNotExist):
		return c, exit.Usagef("orphan-reaper config print shows what holds without a file", "cannot read the configuration: %w", err)
	}
	return c, nil
}

// applyFlags applies the flags. A relative path begins in the working directory.
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
		for _, path := range s.paths(c) {
			if !isPath(*path) {
				continue
			}
			if err := in.check(*path); err != nil {
				return err
			}
			*path = absolute(*path)
		}
	}
	return nil
}

// OtherNodeRoot reports whether the usual places are below another directory than /, and so not those of this machine.
func (c Config) OtherNodeRoot() bool { return c.NodeRoot != "/" }

// usualPlaces puts each default path below the node's root.
func (c *Config) usualPlaces() {
	for i := range Settings {
		if c.Named(Settings[i].Key) {
			continue
		}
		for _, path := range Settings[i].paths(c) {
			if isPath(*path) {
				*path = filepath.Join("/", c.NodeRoot, *path)
			}
		}
	}
}

// discover sets the root directory to that of the running kubelet, and the quarantine below it, unless a flag or the file has
// them.
func (c *Config) discover(ctx context.Context, find func(context.Context) (dir, origin string, ok bool)) {
	if !c.Named("root_dir") && find != nil {
		dir, origin, ok := find(ctx)
		if ok && c.OtherNodeRoot() && !within(dir, c.NodeRoot) {
			ok, origin = false, fmt.Sprintf("the root directory of %s is not below %s", origin, c.NodeRoot)
		}
		if ok {
			c.RootDir, c.sources["root_dir"] = dir, valueOrigin{text: "discovered: " + origin}
		} else {
			// The default is a guess: no look removes anything until the kubelet confirms it (policy.Node.Agrees).
			c.sources["root_dir"] = valueOrigin{text: sourceDefault + ": " + origin}
		}
	}
	if c.QuarantineDir == "" {
		c.QuarantineDir = filepath.Join("/", c.RootDir, "orphan-reaper") // check reports an empty root_dir
		c.sources["quarantine_dir"] = valueOrigin{text: "default, below root_dir"}
	}
}

// With returns the configuration with the values of the named keys from next.
func (c Config) With(next Config, keys []string) Config {
	c.sources = maps.Clone(c.sources)
	for i := range Settings {
		s := &Settings[i]
		if !slices.Contains(keys, s.Key) {
			continue
		}
		if err := s.set(&c, s.Values(&next)); err != nil {
			continue // next was read from the same text
		}
		c.sources[s.Key] = next.sources[s.Key]
	}
	return c
}
