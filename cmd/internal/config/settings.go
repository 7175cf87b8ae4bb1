package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Words that replace a setting's value.
const (
	Auto    = "auto"    // the program finds the value
	None    = "none"    // there is no value
	Self    = "self"    // this process's own namespaces are the node's
	Systemd = "systemd" // the sockets that systemd opens
)

// Values of Mode and APIUnreachable.
const (
	modeObserve       = "observe"
	ModeEnforce       = "enforce"
	unreachableKeep   = "keep"
	UnreachableIgnore = "ignore"
)

// Setting is one value of the configuration: a flag, and a key of the file. A dot in the key separates the
// section of the file from the key in it.
type Setting struct {
	Flag, Key string
	Meta      string // the placeholder of the value in --help; DIR, FILE and WHERE are paths
	Choices   []string
	Live      bool // a reload changes it; the others need a restart
	usual     []string
	words     []string // the words that a path setting accepts in place of a path
	usage     string
	value     any // a *string, *int, *time.Duration or *[]string
	index     int // of the value's field in Config
}

// Settings lists every setting, in the order of --help and config print.
var Settings = func() []Setting {
	var c Config
	all, fields := settings(&c), reflect.ValueOf(&c).Elem()
	for i := range all {
		for all[i].index = 0; !fields.Field(all[i].index).CanInterface() || fields.Field(all[i].index).Addr().Interface() != all[i].value; {
			all[i].index++ // panics for a value that is no field of Config
		}
	}
	return all
}()

// settings returns the settings with pointers to their values in c.
func settings(c *Config) []Setting {
	return []Setting{
		text("root-dir", "DIR", DefaultRootDir, "the kubelet's --root-dir (default: the running kubelet's, else "+DefaultRootDir+")",
			&c.RootDir),
		choice("mode", "MODE", ModeEnforce, "observe or enforce; observe changes nothing", &c.Mode,
			modeObserve, ModeEnforce).live(),
		duration("hold", "1m", "how long the evidence that a pod is dead must hold", &c.Hold),
		duration("confirm", "5m", "how long a pod stays in quarantine unchanged, in case it shows a sign of life; 0s only with --hold 0s",
			&c.Confirm),
		duration("retention", "24h", "how long ephemeral data stays in quarantine", &c.Retention),
		text("max-per-look", "N", "0", "move at most N pods in one look; 0 is no limit", &c.MaxPerLook).live(),
		text("quarantine-dir", "DIR", "", "where pods are moved to; on the same mount as the pods directory (default: ROOT-DIR/orphan-reaper)",
			&c.QuarantineDir),
		text("state-dir", "DIR", "/var/lib/orphan-reaper", "where the ledger, the holds and the checkpoints are", &c.StateDir),
		list("log-source", "SOURCE", "log_sources", "auto, journald or file; auto is journald if it runs; may be repeated",
			&c.LogSources, Auto).of(Auto, "journald", "file"),
		list("journal-unit", "UNIT", "journal_units", "a unit that runs a kubelet; may be repeated (default: the usual ones)",
			&c.JournalUnits, parsers.KubeletUnits()...),
		list("log-file", "FILE", "log_files", "a log to follow; may be repeated", &c.LogFiles, "/var/log/messages", "/var/log/syslog"),
		text("runtime-endpoint", "URL", Auto, "the CRI socket: unix:///PATH or auto; none only with --node-namespaces self",
			&c.RuntimeEndpoint),
		choice("node-namespaces", "WHICH", Auto, "auto; self: this process's own namespaces are the node's",
			&c.NodeNamespaces, Auto, Self),
		text("node-root", "DIR", "/", "the directory below which all usual places are; other than / only with --node-namespaces self",
			&c.NodeRoot),
		text("cgroup-root", "DIR", "/sys/fs/cgroup", "where the cgroup file system is", &c.CgroupRoot),
		text("kubelet-token-file", "FILE", None, "a bearer token for the kubelet's own port; with it the kubelet is asked for its pods",
			&c.KubeletTokenFile).or(None),
		text("kubelet-client-certificate", "FILE", None, "a client certificate for the kubelet's own port",
			&c.KubeletClientCertificate).or(None),
		text("kubelet-client-key", "FILE", None, "the key of that certificate (default: in the same file)", &c.KubeletClientKey).or(None),
		text("kubeconfig", "FILE", None, "how to reach the API server; with it the API server is asked for this node's pods",
			&c.Kubeconfig).or(None),
		text("node-name", "NAME", Auto, "this node's name at the API server; auto reads it from the credentials, the kubelet or this host",
			&c.NodeName),
		choice("api-unreachable", "WHAT", unreachableKeep, "if the API server cannot be asked: keep everything, or ignore that",
			&c.APIUnreachable, unreachableKeep, UnreachableIgnore).live(),
		text("cni-cache-dir", "DIR", "/var/lib/cni", "libcni's cache", &c.CNICacheDir),
		text("cni-data-dir", "DIR", "/var/lib/cni/networks", "host-local's dataDir", &c.CNIDataDir),
		text("cni-conf-dir", "DIR", "/etc/cni/net.d", "the runtime's network configurations", &c.CNIConfDir),
		duration("cni-older-than", "24h", "how old CNI residue must be", &c.CNIOlderThan),
		text("metrics-file", "FILE", Auto, "the node exporter's textfile, *.prom; auto looks for its directory; none writes no file",
			&c.MetricsFile).or(Auto, None),
		list("web-listen-address", "ADDRESS", "web.listen_addresses",
			"answer HTTP on HOST:PORT; systemd stands for the sockets of orphan-reaper.socket; may be repeated (default: none)",
			&c.WebListenAddresses),
		text("web-config-file", "FILE", None, "Prometheus' web configuration: TLS, passwords, client certificates",
			&c.WebConfigFile).or(None).at("web.config_file"),
		choice("log-level", "LEVEL", "info", "debug, info, warn or error", &c.LogLevel,
			"debug", "info", "warn", "error").live(),
		choice("log-format", "FORMAT", Auto, "auto, text, json or journal; auto depends on where it runs",
			&c.LogFormat, Auto, "text", "json", "journal"),
	}
}

func text(flag, meta, usual, usage string, value any) Setting {
	return Setting{Flag: flag, Key: strings.ReplaceAll(flag, "-", "_"), Meta: meta, usual: []string{usual}, usage: usage, value: value}
}

func choice(flag, meta, usual, usage string, value *string, choices ...string) Setting {
	return text(flag, meta, usual, usage, value).of(choices...)
}

// duration makes a setting that a reload changes, as all durations do.
func duration(flag, usual, usage string, value *time.Duration) Setting {
	return text(flag, "DURATION", usual, usage, value).live()
}

func list(flag, meta, key, usage string, value *[]string, usual ...string) Setting {
	return Setting{Flag: flag, Key: key, Meta: meta, usual: usual, usage: usage, value: value}
}

func (s Setting) live() Setting                { s.Live = true; return s }
func (s Setting) at(key string) Setting        { s.Key = key; return s }
func (s Setting) or(words ...string) Setting   { s.words = words; return s }
func (s Setting) of(choices ...string) Setting { s.Choices = choices; return s }

// Default returns the configuration without a file and without flags.
func Default() Config {
	c := Config{sources: map[string]valueOrigin{}}
	for i := range Settings {
		if err := Settings[i].set(&c, Settings[i].usual); err != nil {
			panic(err) // a wrong default is a fault of the table above
		}
	}
	return c
}

func settingByKey(key string) *Setting {
	if i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Key == key }); i >= 0 {
		return &Settings[i]
	}
	return nil
}

// List reports whether the setting has several values.
func (s *Setting) List() bool {
	_, ok := s.value.(*[]string)
	return ok
}

func (s *Setting) field(c *Config) any {
	return reflect.ValueOf(c).Elem().Field(s.index).Addr().Interface()
}

func (s *Setting) isPath() bool { return slices.Contains([]string{"DIR", "FILE", "WHERE"}, s.Meta) }

// paths returns pointers to the values of a setting that are paths.
func (s *Setting) paths(c *Config) (paths []*string) {
	if !s.isPath() {
		return nil
	}
	switch p := s.field(c).(type) {
	case *string:
		if !slices.Contains(s.words, *p) {
			return []*string{p}
		}
	case *[]string:
		for i := range *p {
			paths = append(paths, &(*p)[i])
		}
	}
	return paths
}

// set sets the values in the configuration. A setting that is no list uses the last value.
func (s *Setting) set(c *Config, values []string) (err error) {
	for _, v := range values {
		if len(s.Choices) > 0 && !slices.Contains(s.Choices, v) {
			return fmt.Errorf("%s is not one of %s", strconv.Quote(v), strings.Join(s.Choices, ", "))
		}
	}
	last := ""
	if len(values) > 0 {
		last = values[len(values)-1]
	}
	switch p := s.field(c).(type) {
	case *string:
		*p = last
	case *[]string:
		*p = slices.Clone(values)
	case *int:
		if *p, err = strconv.Atoi(last); err != nil {
			err = fmt.Errorf("%s is not a whole number", strconv.Quote(last))
		}
	case *time.Duration:
		*p, err = parseDuration(last)
	}
	return err
}

// Values returns the configuration's values in the notation of the file.
func (s *Setting) Values(c *Config) []string {
	switch p := s.field(c).(type) {
	case *string:
		return []string{*p}
	case *[]string:
		return *p
	case *int:
		return []string{strconv.Itoa(*p)}
	case *time.Duration:
		return []string{human.Span(*p)}
	}
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%s is not a duration: write one such as 90s, 5m or 48h", strconv.Quote(s))
	}
	return d, nil
}
