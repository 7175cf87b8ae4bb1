package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// Setting is one value that a flag and a key of the configuration file give. The key is
// the flag with underscores, in the plural where the flag may be repeated; a dot in it is a
// section of the file.
type Setting struct {
	Flag, Key string
	Meta      string // what stands for the value in --help
	usage     string
	Choices   []string
	field     func(*Config) any // a *string, *int, *time.Duration or *[]string
	Live      bool              // a reload changes it; else only a restart
	use       use
}

// The words that stand for a value that is found by the program, or for none.
const (
	Auto = "auto"
	None = "none"
	Self = "self"
)

// InCluster is the value of Config.WebTokenReview and Config.OrphanReport that stands for the service account of this pod.
const InCluster = "in-cluster"

// The values of Config.Mode.
const (
	modeObserve = "observe"
	ModeEnforce = "enforce"
)

// The values of Config.APIUnreachable.
const (
	unreachableKeep   = "keep"
	UnreachableIgnore = "ignore"
)

// Settings is every setting, in the order of --help and of config print.
var Settings = []Setting{
	{
		Flag: "root-dir", Key: "root_dir", Meta: "DIR", usage: "the kubelet's --root-dir (default: the running kubelet's, else " + DefaultRootDir + ")",
		field: func(c *Config) any { return &c.RootDir },
	},
	{
		Flag: "mode", Key: "mode", Meta: "MODE", usage: "observe or enforce; observe changes nothing",
		Choices: []string{modeObserve, ModeEnforce}, field: func(c *Config) any { return &c.Mode }, use: useTimes, Live: true,
	},
	{
		Flag: "hold", Key: "hold", Meta: "DURATION", usage: "how long the evidence that a pod is dead must hold",
		field: func(c *Config) any { return &c.Hold }, use: useTimes, Live: true,
	},
	{
		Flag: "hold-reported", Key: "hold_reported", Meta: "DURATION",
		usage: "the hold of pods that the running kubelet reported as orphans, or that its complete list omits, if shorter than --hold",
		field: func(c *Config) any { return &c.HoldReported }, use: useTimes, Live: true,
	},
	{
		Flag: "settle", Key: "settle", Meta: "DURATION", usage: "how long the kubelet must have run before anything is moved",
		field: func(c *Config) any { return &c.Settle }, use: useTimes, Live: true,
	},
	{
		Flag: "confirm", Key: "confirm", Meta: "DURATION",
		usage: "how long a pod stays in quarantine unchanged, in case it shows a sign of life; 0s only with --hold 0s",
		field: func(c *Config) any { return &c.Confirm }, use: useTimes, Live: true,
	},
	{
		Flag: "retention", Key: "retention", Meta: "DURATION", usage: "how long ephemeral data stays in quarantine",
		field: func(c *Config) any { return &c.Retention }, use: useAging, Live: true,
	},
	{
		Flag: "max-per-look", Key: "max_per_look", Meta: "N", usage: "move at most N pods in one look; 0 is no limit",
		field: func(c *Config) any { return &c.MaxPerLook }, use: useRun, Live: true,
	},
	{
		Flag: "quarantine-dir", Key: "quarantine_dir", Meta: "DIR",
		usage: "where pods are moved to; on the same mount as the pods directory (default: ROOT-DIR/orphan-reaper)",
		field: func(c *Config) any { return &c.QuarantineDir },
	},
	{
		Flag: "state-dir", Key: "state_dir", Meta: "DIR", usage: "where the ledger, the holds and the checkpoints are",
		field: func(c *Config) any { return &c.StateDir },
	},
	{
		Flag: "log-source", Key: "log_sources", Meta: "SOURCE", usage: "auto, journald or file; auto is journald if it runs; may be repeated",
		Choices: []string{Auto, "journald", "file"}, field: func(c *Config) any { return &c.LogSources }, use: useLogs,
	},
	{
		Flag: "journal-unit", Key: "journal_units", Meta: "UNIT", usage: "a unit that runs a kubelet; may be repeated (default: the usual ones)",
		field: func(c *Config) any { return &c.JournalUnits }, use: useLogs,
	},
	{
		Flag: "log-file", Key: "log_files", Meta: "FILE", usage: "a log to follow; may be repeated",
		field: func(c *Config) any { return &c.LogFiles }, use: useLogs,
	},
	{
		Flag: "runtime-endpoint", Key: "runtime_endpoint", Meta: "URL", usage: "the CRI socket: unix:///PATH or auto; none only with --node-namespaces self",
		field: func(c *Config) any { return &c.RuntimeEndpoint }, use: useNode,
	},
	{
		Flag: "node-namespaces", Key: "node_namespaces", Meta: "WHICH", usage: "auto; self: this process's own namespaces are the node's",
		Choices: []string{Auto, Self}, field: func(c *Config) any { return &c.NodeNamespaces },
	},
	{
		Flag: "node-root", Key: "node_root", Meta: "DIR",
		usage: "the directory below which all usual places are; other than / only with --node-namespaces self",
		field: func(c *Config) any { return &c.NodeRoot },
	},
	{
		Flag: "cgroup-root", Key: "cgroup_root", Meta: "DIR", usage: "where the cgroup file system is",
		field: func(c *Config) any { return &c.CgroupRoot }, use: useNode,
	},
	{
		Flag: "kubelet-token-file", Key: "kubelet_token_file", Meta: "FILE",
		usage: "a bearer token for the kubelet's own port; with it the kubelet is asked for its pods",
		field: func(c *Config) any { return &c.KubeletTokenFile }, use: useNode,
	},
	{
		Flag: "kubelet-client-certificate", Key: "kubelet_client_certificate", Meta: "FILE", usage: "a client certificate for the kubelet's own port",
		field: func(c *Config) any { return &c.KubeletClientCertificate }, use: useNode,
	},
	{
		Flag: "kubelet-client-key", Key: "kubelet_client_key", Meta: "FILE", usage: "the key of that certificate (default: in the same file)",
		field: func(c *Config) any { return &c.KubeletClientKey }, use: useNode,
	},
	{
		Flag: "kubeconfig", Key: "kubeconfig", Meta: "FILE", usage: "how to reach the API server; with it the API server is asked for this node's pods",
		field: func(c *Config) any { return &c.Kubeconfig }, use: useNode,
	},
	{
		Flag: "node-name", Key: "node_name", Meta: "NAME",
		usage: "this node's name at the API server; auto reads it from the credentials, the kubelet or this host",
		field: func(c *Config) any { return &c.NodeName }, use: useNode,
	},
	{
		Flag: "api-unreachable", Key: "api_unreachable", Meta: "WHAT", usage: "if the API server cannot be asked: keep everything, or ignore that",
		Choices: []string{unreachableKeep, UnreachableIgnore}, field: func(c *Config) any { return &c.APIUnreachable }, use: useNode, Live: true,
	},
	{
		Flag: "cni-cache-dir", Key: "cni_cache_dir", Meta: "DIR", usage: "libcni's cache",
		field: func(c *Config) any { return &c.CNICacheDir }, use: useCNI,
	},
	{
		Flag: "cni-data-dir", Key: "cni_data_dir", Meta: "DIR", usage: "host-local's dataDir",
		field: func(c *Config) any { return &c.CNIDataDir }, use: useCNI,
	},
	{
		Flag: "cni-conf-dir", Key: "cni_conf_dir", Meta: "DIR", usage: "the runtime's network configurations",
		field: func(c *Config) any { return &c.CNIConfDir }, use: useCNI,
	},
	{
		Flag: "cni-older-than", Key: "cni_older_than", Meta: "DURATION", usage: "how old CNI residue must be",
		field: func(c *Config) any { return &c.CNIOlderThan }, use: useCNI, Live: true,
	},
	{
		Flag: "metrics-file", Key: "metrics_file", Meta: "FILE",
		usage: "the node exporter's textfile, *.prom; auto looks for its directory; none writes no file",
		field: func(c *Config) any { return &c.MetricsFile }, use: useRun,
	},
	{
		Flag: "web-listen-address", Key: "web.listen_addresses", Meta: "ADDRESS",
		usage: "answer HTTP on HOST:PORT; systemd stands for the sockets of orphan-reaper.socket; may be repeated (default: none)",
		field: func(c *Config) any { return &c.WebListenAddresses }, use: useRun,
	},
	{
		Flag: "web-config-file", Key: "web.config_file", Meta: "FILE", usage: "Prometheus' web configuration: TLS, passwords, client certificates",
		field: func(c *Config) any { return &c.WebConfigFile }, use: useRun,
	},
	{
		Flag: "web-token-review", Key: "web.token_review", Meta: "WHERE",
		usage: "the API server that checks bearer tokens and their rights: none, in-cluster for a pod's service account, or a kubeconfig",
		field: func(c *Config) any { return &c.WebTokenReview }, use: useRun,
	},
	{
		Flag: "orphan-report", Key: "orphan_report", Meta: "WHERE",
		usage: "where to write this node's OrphanReport: none, in-cluster for a pod's service account, or a kubeconfig",
		field: func(c *Config) any { return &c.OrphanReport }, use: useRun,
	},
	{
		Flag: "log-level", Key: "log_level", Meta: "LEVEL", usage: "debug, info, warn or error",
		Choices: []string{"debug", "info", "warn", "error"}, field: func(c *Config) any { return &c.LogLevel }, use: useNever, Live: true,
	},
	{
		Flag: "log-format", Key: "log_format", Meta: "FORMAT", usage: "auto, text, json or journal; auto depends on where it runs",
		Choices: []string{Auto, "text", "json", "journal"}, field: func(c *Config) any { return &c.LogFormat }, use: useNever,
	},
}

// Earlier versions sent traces. Their flags and their section of the file have no effect, so that command lines and
// files that still have them work.
const (
	retiredSection = "tracing"
	retiredNote    = "no traces are sent any more; remove it"
)

// retiredFlags are the flags of that section.
var retiredFlags = []string{"tracing-endpoint", "tracing-ca-file"}

// List reports whether the setting takes several values.
func (s *Setting) List() bool {
	_, ok := s.field(new(Config)).(*[]string)
	return ok
}

// set writes the values into the configuration; all but a list take the last.
func (s *Setting) set(c *Config, values []string) error {
	for _, v := range values {
		if len(s.Choices) > 0 && !slices.Contains(s.Choices, v) {
			return fmt.Errorf("%s is not one of %s", strconv.Quote(v), strings.Join(s.Choices, ", "))
		}
	}
	var err error
	switch p := s.field(c).(type) {
	case *string:
		*p = last(values)
	case *[]string:
		*p = slices.Clone(values)
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

// Values returns what the configuration holds, in the words of the file.
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
