package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// DefaultFile is the file that is read without --config, if it exists.
const DefaultFile = "/etc/orphan-reaper/config.yaml"

// Config is the configuration of one call.
type Config struct {
	Settings
	File    string            // that was read, "" if none was
	origins map[string]string // by key
}

// Judge returns the settings of the core.
func (c *Config) Judge() judge.Settings {
	return judge.Settings{
		Hold: c.Hold, Confirm: c.Confirm, Retention: c.Retention, MaxPerScan: c.MaxPerScan, Observe: c.Mode == "observe",
	}
}

// Origin returns where the value of a key comes from: "--FLAG", FILE:LINE, "default", or "auto" after Settle.
func (c *Config) Origin(key string) string { return cmp.Or(c.origins[key], "default") }

// NeedRestart returns the keys whose values differ in next and that a reload does not change.
func (c *Config) NeedRestart(next *Config) (keys []string) {
	for _, s := range Table {
		if !s.Reload && !slices.Equal(s.values(&c.Settings), s.values(&next.Settings)) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// Shared returns what a daemon with these settings publishes for the commands beside it. next are the settings of its last
// reload.
func (c *Config) Shared(next *Config) map[string]string {
	all := map[string]string{}
	for _, s := range Table {
		from := c
		if s.Reload {
			from = next
		}
		if s.Shared {
			all[s.Key] = s.values(&from.Settings)[0]
		}
	}
	return all
}

// Beside takes over what a running daemon has published, but for the settings that this call has flags for: the daemon may
// have its settings from flags, too. A value that this version does not know is left out.
func (c *Config) Beside(daemon map[string]string) {
	for _, s := range Table {
		if v, ok := daemon[s.Key]; ok && s.Shared && !strings.HasPrefix(c.origins[s.Key], "--") && s.set(&c.Settings, v) == nil {
			c.origins[s.Key] = "the daemon"
		}
	}
}

// AddFlags adds --config and a flag for each setting.
func AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.String("config", "", "the `FILE` with the settings; flags win over it (default: "+DefaultFile+", if it exists)")
	for i := range Table {
		flags.Var(&flagValue{setting: &Table[i]}, Table[i].Flag, Table[i].Usage)
	}
}

// flagValue collects the values of a flag.
type flagValue struct {
	setting *Setting
	given   []string
}

func (v *flagValue) Set(text string) error {
	v.given = append(v.given, text)
	return v.setting.set(new(Settings), v.given...)
}

func (v *flagValue) String() string {
	if v.setting == nil { // pflag makes a zero value to compare with
		return ""
	}
	return v.setting.Default
}

func (v *flagValue) Type() string { return v.setting.Type }

// Load returns the configuration of one call. flags are those that AddFlags made, and usual is the file that is read without
// --config, if it exists. Each error is one of the configuration (exit code 2): it has the flag, or the file and the line, of
// each wrong value.
func Load(flags *pflag.FlagSet, usual string) (*Config, error) {
	c := &Config{origins: map[string]string{}}
	for i := range Table {
		if err := Table[i].set(&c.Settings, Table[i].Default); err != nil {
			return nil, fmt.Errorf("the default of %s: %w", Table[i].Key, err)
		}
	}
	file, err := flags.GetString("config")
	if err != nil {
		return nil, err
	}
	named := flags.Changed("config")
	if !named {
		file = usual
	}
	data, err := read(file)
	switch {
	case err == nil:
		c.File = file
		if err := c.apply(file, data); err != nil {
			return nil, err
		}
	case named || !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	for i := range Table {
		s := &Table[i]
		if v, ok := flags.Lookup(s.Flag).Value.(*flagValue); ok && len(v.given) > 0 {
			if err := s.set(&c.Settings, v.given...); err != nil {
				return nil, fmt.Errorf("--%s: %w", s.Flag, err)
			}
			c.origins[s.Key] = "--" + s.Flag
		}
	}
	return c, c.check(cmp.Or(c.RootDir, "/var/lib/kubelet"))
}

// Settle sets root_dir and quarantine_dir where they are auto: running is the root directory of the kubelet that runs.
func (c *Config) Settle(running string) error {
	if c.RootDir == "" {
		c.RootDir, c.origins["root_dir"] = running, Auto
	}
	if c.QuarantineDir == "" {
		c.QuarantineDir, c.origins["quarantine_dir"] = filepath.Join(c.RootDir, "orphan-reaper"), Auto
	}
	return c.check(c.RootDir)
}

// check returns an error for directories inside one another: the kubelet would find the quarantine, or purging it would
// remove what others need.
func (c *Config) check(root string) error {
	quarantine := cmp.Or(c.QuarantineDir, filepath.Join(root, "orphan-reaper"))
	pods := filepath.Join(root, "pods")
	var errs []error
	add := func(key, format string, args ...any) {
		at := key
		if origin, ok := c.origins[key]; ok {
			at = origin
			if !strings.HasPrefix(origin, "--") {
				at += ": " + key
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", at, fmt.Errorf(format, args...)))
	}
	if within(quarantine, pods) || within(pods, quarantine) {
		add("quarantine_dir", "%s and the pods directory %s are inside one another", quarantine, pods)
	}
	if within(c.StateDir, pods) || within(pods, c.StateDir) {
		add("state_dir", "%s and the pods directory %s are inside one another", c.StateDir, pods)
	}
	if within(c.StateDir, quarantine) {
		add("state_dir", "%s is inside the quarantine %s", c.StateDir, quarantine)
	}
	if c.WebConfigFile != "" && len(c.WebListenAddress) == 0 {
		add("web_config_file", "nothing is answered without web_listen_address")
	}
	return errors.Join(errs...)
}

// within reports whether path is dir or inside it, by name.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Print writes each setting with its value and its origin.
func (c *Config) Print(w io.Writer) error {
	var rows strings.Builder
	rows.WriteString("SETTING\tVALUE\tFROM\n")
	for _, s := range Table {
		rows.WriteString(s.Key + "\t" + strings.Join(s.values(&c.Settings), " ") + "\t" + c.Origin(s.Key) + "\n")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, rows.String()); err != nil {
		return err
	}
	return table.Flush()
}
