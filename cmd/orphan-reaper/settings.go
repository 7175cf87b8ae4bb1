package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is one value that a flag and a key of the configuration file give. The key is
// the flag with underscores, in the plural where the flag may be repeated; a dot in it is a
// section of the file.
type setting struct {
	flag, key string
	meta      string // what stands for the value in --help
	usage     string
	choices   []string
	field     func(*Config) any // a *string, *bool, *int, *time.Duration or *[]string
	live      bool              // a reload changes it; else only a restart
}

// The words that stand for a value that is found by the program, or for none.
const (
	auto = "auto"
	none = "none"
	self = "self"
)

// The values of Config.Mode.
const (
	modeObserve = "observe"
	modeEnforce = "enforce"
)

// The values of Config.APIUnreachable.
const (
	unreachableKeep   = "keep"
	unreachableIgnore = "ignore"
)

// settings is every setting, in the order of --help and of config print.
var settings = []setting{
	{
		flag: "root-dir", key: "root_dir", meta: "DIR", usage: "the kubelet's --root-dir (default: the running kubelet's, else " + defaultRootDir + ")",
		field: func(c *Config) any { return &c.RootDir },
	},
	{
		flag: "mode", key: "mode", meta: "MODE", usage: "observe or enforce; observe changes nothing",
		choices: []string{modeObserve, modeEnforce}, field: func(c *Config) any { return &c.Mode }, live: true,
	},
	{
		flag: "hold", key: "hold", meta: "DURATION", usage: "how long evidence must stay good",
		field: func(c *Config) any { return &c.Hold }, live: true,
	},
	{
		flag: "settle", key: "settle", meta: "DURATION", usage: "how long the kubelet must have run",
		field: func(c *Config) any { return &c.Settle }, live: true,
	},
	{
		flag: "confirm", key: "confirm", meta: "DURATION", usage: "how long a parked pod waits for a sign of life; 0s only with --hold 0s",
		field: func(c *Config) any { return &c.Confirm }, live: true,
	},
	{
		flag: "retention", key: "retention", meta: "DURATION", usage: "how long ephemeral data stays in quarantine",
		field: func(c *Config) any { return &c.Retention }, live: true,
	},
	{
		flag: "max-per-look", key: "max_per_look", meta: "N", usage: "most pods taken in one look; 0 is no limit",
		field: func(c *Config) any { return &c.MaxPerLook }, live: true,
	},
	{
		flag: "quarantine-dir", key: "quarantine_dir", meta: "DIR", usage: "on the same mount as the pods directory (default: ROOT-DIR/orphan-reaper)",
		field: func(c *Config) any { return &c.QuarantineDir },
	},
	{
		flag: "state-dir", key: "state_dir", meta: "DIR", usage: "ledger, holds, checkpoints",
		field: func(c *Config) any { return &c.StateDir },
	},
	{
		flag: "log-source", key: "log_sources", meta: "SOURCE", usage: "auto, journald or file; may be repeated; auto is journald where it runs",
		choices: []string{auto, "journald", "file"}, field: func(c *Config) any { return &c.LogSources },
	},
	{
		flag: "journal-unit", key: "journal_units", meta: "UNIT", usage: "a unit that runs a kubelet; may be repeated (default: the usual ones)",
		field: func(c *Config) any { return &c.JournalUnits },
	},
	{
		flag: "log-file", key: "log_files", meta: "FILE", usage: "a log to follow; may be repeated",
		field: func(c *Config) any { return &c.LogFiles },
	},
	{
		flag: "runtime-endpoint", key: "runtime_endpoint", meta: "URL", usage: "CRI socket: unix:///PATH, auto, or none with --node-namespaces self",
		field: func(c *Config) any { return &c.RuntimeEndpoint },
	},
	{
		flag: "remove-sandboxes", key: "runtime.remove_sandboxes", meta: "BOOL", usage: "have the runtime remove stopped sandboxes of pods that nobody else knows",
		choices: []string{"true", "false"}, field: func(c *Config) any { return &c.RemoveSandboxes }, live: true,
	},
	{
		flag: "node-namespaces", key: "node_namespaces", meta: "WHICH", usage: "auto, or self where this process's own namespaces are the node",
		choices: []string{auto, self}, field: func(c *Config) any { return &c.NodeNamespaces },
	},
	{
		flag: "node-root", key: "node_root", meta: "DIR", usage: "below which all usual places are; another than / only with --node-namespaces self",
		field: func(c *Config) any { return &c.NodeRoot },
	},
	{
		flag: "cgroup-root", key: "cgroup_root", meta: "DIR", usage: "where the cgroup file system is",
		field: func(c *Config) any { return &c.CgroupRoot },
	},
	{
		flag: "kubelet-token-file", key: "kubelet_token_file", meta: "FILE", usage: "a bearer token for the kubelet's own port, which is then asked for its pods",
		field: func(c *Config) any { return &c.KubeletTokenFile },
	},
	{
		flag: "kubelet-client-certificate", key: "kubelet_client_certificate", meta: "FILE", usage: "a client certificate for the kubelet's own port",
		field: func(c *Config) any { return &c.KubeletClientCertificate },
	},
	{
		flag: "kubelet-client-key", key: "kubelet_client_key", meta: "FILE", usage: "its key (default: in the same file)",
		field: func(c *Config) any { return &c.KubeletClientKey },
	},
	{
		flag: "kubeconfig", key: "kubeconfig", meta: "FILE", usage: "for the API server, which is then asked for this node's pods",
		field: func(c *Config) any { return &c.Kubeconfig },
	},
	{
		flag: "node-name", key: "node_name", meta: "NAME", usage: "this node's name at the API server; auto: as its credentials, the kubelet or this host say",
		field: func(c *Config) any { return &c.NodeName },
	},
	{
		flag: "api-unreachable", key: "api_unreachable", meta: "WHAT", usage: "keep everything, or ignore that the API server could not be asked",
		choices: []string{unreachableKeep, unreachableIgnore}, field: func(c *Config) any { return &c.APIUnreachable }, live: true,
	},
	{
		flag: "cni-cache-dir", key: "cni_cache_dir", meta: "DIR", usage: "libcni's cache",
		field: func(c *Config) any { return &c.CNICacheDir },
	},
	{
		flag: "cni-data-dir", key: "cni_data_dir", meta: "DIR", usage: "host-local's dataDir",
		field: func(c *Config) any { return &c.CNIDataDir },
	},
	{
		flag: "cni-conf-dir", key: "cni_conf_dir", meta: "DIR", usage: "the runtime's network configurations",
		field: func(c *Config) any { return &c.CNIConfDir },
	},
	{
		flag: "cni-older-than", key: "cni_older_than", meta: "DURATION", usage: "how old CNI residue must be",
		field: func(c *Config) any { return &c.CNIOlderThan }, live: true,
	},
	{
		flag: "metrics-file", key: "metrics_file", meta: "FILE", usage: "node exporter textfile, *.prom; auto: where its directory is found; none",
		field: func(c *Config) any { return &c.MetricsFile },
	},
	{
		flag: "log-level", key: "log_level", meta: "LEVEL", usage: "debug, info, warn or error",
		choices: []string{"debug", "info", "warn", "error"}, field: func(c *Config) any { return &c.LogLevel }, live: true,
	},
	{
		flag: "log-format", key: "log_format", meta: "FORMAT", usage: "auto, text, json or journal; auto is by where it runs",
		choices: []string{auto, "text", "json", "journal"}, field: func(c *Config) any { return &c.LogFormat },
	},
}

// list says whether the setting takes several values.
func (s *setting) list() bool {
	_, ok := s.field(new(Config)).(*[]string)
	return ok
}

// set writes the values into the configuration; all but a list take the last.
func (s *setting) set(c *Config, values []string) error {
	for _, v := range values {
		if len(s.choices) > 0 && !slices.Contains(s.choices, v) {
			return fmt.Errorf("%s is not one of %s", strconv.Quote(v), strings.Join(s.choices, ", "))
		}
	}
	var err error
	switch p := s.field(c).(type) {
	case *string:
		*p = last(values)
	case *[]string:
		*p = slices.Clone(values)
	case *bool:
		*p = last(values) == "true"
	case *int:
		*p, err = parseInt(last(values))
	case *time.Duration:
		*p, err = parseDuration(last(values))
	}
	return err
}

// last is the value that holds of a flag that was repeated, "" where it was not given.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// values returns what the configuration holds, in the words of the file.
func (s *setting) values(c *Config) []string {
	switch p := s.field(c).(type) {
	case *string:
		return []string{*p}
	case *[]string:
		return *p
	case *bool:
		return []string{strconv.FormatBool(*p)}
	case *int:
		return []string{strconv.Itoa(*p)}
	case *time.Duration:
		return []string{span(*p)}
	}
	return nil
}

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", strconv.Quote(s))
	}
	return n, nil
}

// inDays matches what people write and Go's durations have not: a day has 23 hours, too.
var inDays = regexp.MustCompile(`^[0-9]+ *(d|days?)$`)

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil:
		return d, nil
	case inDays.MatchString(s):
		return 0, fmt.Errorf("%s is not a duration: write days in hours, such as 48h", strconv.Quote(s))
	}
	return 0, fmt.Errorf("%s is not a duration: write one such as 90s, 5m or 1h30m", strconv.Quote(s))
}
