// Package config reads the settings: the defaults, the file over them, the flags over both.
//
// Settings is the one table. Its tags and comments are the source of the flags, the keys of the file, config check,
// packaging/config.yaml, the manual pages and the reference. The package changes nothing and looks for no kubelet.
package config

import (
	"log/slog"
	"reflect"
	"strings"
	"time"
)

// Settings are the values of all settings. The comment of a field is its text in the manual. A default that is a word (auto
// or none) is the zero value of its field.
type Settings struct {
	// With enforce, pods are moved to quarantine and cleaned. With observe, the daemon scans and decides in the same way, and
	// moves and removes nothing; it writes to its own state directory, and restores a pod that an earlier daemon has moved if
	// that pod turns out to be alive. On a node that you do not know, begin with observe, and read what orphan-reaper scan
	// prints.
	//
	// Only the daemon has a mode. The commands sweep, unmount and quarantine are orders.
	Mode string `key:"mode" type:"observe|enforce" default:"observe" shared:"yes" reload:"yes" usage:"enforce moves and cleans dead pods; observe moves and removes nothing"`

	// The kubelet's root directory (its --root-dir). With auto it is that of the kubelet that runs, or /var/lib/kubelet if none
	// runs. Set it if several kubelets run on the node. A pod is only moved while exactly one running kubelet has this directory.
	RootDir string `key:"root_dir" type:"DIR" default:"auto" usage:"the kubelet's root directory; auto: the running kubelet's, else /var/lib/kubelet"`

	// Where pods are moved to. With auto it is the directory orphan-reaper in the kubelet's root directory. It must be on the same
	// mount as the pods directory, since a pod is moved by one rename, and neither may be inside the other. While a pod is in one
	// quarantine, another one is refused: restore or purge first what is there.
	QuarantineDir string `key:"quarantine_dir" type:"DIR" default:"auto" usage:"where pods are moved to; auto: orphan-reaper in the kubelet's root directory"`

	// Where the ledger is kept, and the archives of the CNI files that were removed. It is made if it does not exist. Without its
	// ledger, the quarantine has only what lies on the disk.
	StateDir string `key:"state_dir" type:"DIR" default:"/var/lib/orphan-reaper" usage:"where the ledger and the archives of CNI files are kept"`

	// How long every fact about a pod has to be good before the pod is moved to quarantine. A pod that is starting again shows that
	// within this time. The holds of all pods run at the same time, so a longer hold delays a backlog only once. Less than 1s is
	// refused: two scans have to find the pod dead. Use less than 1m for tests only.
	Hold time.Duration `key:"hold" type:"DURATION" default:"1m" least:"1s" shared:"yes" reload:"yes" usage:"how long all facts about a pod must be good before it is moved"`

	// How long a pod stays in quarantine unchanged. If it shows within this time that it is alive, it is restored. Then its secrets,
	// configMaps, empty directories and the kubelet's own files are removed. A kubelet makes the directory of a living pod again
	// within 3 minutes: do not choose less, except for tests. Less than 1s is refused.
	Confirm time.Duration `key:"confirm" type:"DURATION" default:"5m" least:"1s" shared:"yes" reload:"yes" usage:"how long a moved pod stays unchanged, in case it is alive"`

	// How long emptyDirs and ephemeral CSI volumes stay in quarantine, and archives of CNI files in the state directory. Where the
	// disk runs full, emptyDirs are removed after 10 minutes. What may be a user's data is removed by orphan-reaper quarantine
	// purge only.
	Retention time.Duration `key:"retention" type:"DURATION" default:"24h" shared:"yes" reload:"yes" usage:"how long emptyDirs and archives of CNI files are kept"`

	// The most pods that one scan moves to quarantine. 0 is no limit. Set it for the first days on a node with a large backlog, if
	// you want to read about each pod before the next ones follow.
	MaxPerScan int `key:"max_per_scan" type:"N" default:"0" shared:"yes" reload:"yes" usage:"the most pods that one scan moves; 0: no limit"`

	// The files that have the kubelet's log. With auto they are those that the running kubelet writes itself, and the usual syslog
	// files where there is no journal. Set it if syslog writes the kubelet's lines to another file. Where there is a journal, such
	// a file releases no pod.
	LogFiles []string `key:"log_files" type:"FILE" default:"auto" usage:"a file with the kubelet's log; may be repeated; auto: what the running kubelet writes"`

	// The systemd units whose journal has the kubelet's log. With auto it is the unit of the kubelet that runs. Set it if that
	// unit is not found.
	JournalUnits []string `key:"journal_units" type:"UNIT" default:"auto" usage:"a systemd unit that runs the kubelet; may be repeated; auto: the running kubelet's"`

	// The sockets of the container runtimes. With auto, every usual socket that accepts a connection is asked. Set it if a runtime
	// listens elsewhere, and name all of them: a pod is kept if one that is named cannot be asked.
	RuntimeEndpoints []string `key:"runtime_endpoints" type:"URL" default:"auto" usage:"a runtime's socket, unix:///PATH; may be repeated; auto: the usual ones"`

	// With on, stale files of CNI are removed: results in the cache, and addresses of host-local whose pod is gone. With off, no
	// directory of CNI is read.
	CNI bool `key:"cni" type:"on|off" default:"on" shared:"yes" usage:"remove stale files of CNI"`

	// The directory of libcni's cache, of Multus' and flannel's files, and of host-local's networks.
	CNIDir string `key:"cni_dir" type:"DIR" default:"/var/lib/cni" usage:"where libcni and host-local keep their files"`

	// The directory from which the runtime loads its network configuration. Set it if that is another one, such as
	// /var/lib/rancher/k3s/agent/etc/cni/net.d of K3s or /var/snap/microk8s/current/args/cni-network of MicroK8s. An address
	// that no cache file explains is removed only if its network is the one that the runtime loads.
	CNIConfDir string `key:"cni_conf_dir" type:"DIR" default:"/etc/cni/net.d" usage:"where the runtime finds its network configuration"`

	// How old a CNI file of this boot must be before it is removed, if we did not clean its pod. A file that is older than the boot
	// goes at once, since no network namespace outlives one.
	CNIOlderThan time.Duration `key:"cni_older_than" type:"DURATION" default:"24h" shared:"yes" usage:"how old a CNI file of this boot must be"`

	// The file for the node exporter's textfile collector. Its name must end in .prom. With auto it is orphan-reaper.prom in the
	// collector's directory, if one of the usual directories exists. With none, no file is written.
	MetricsFile string `key:"metrics_file" type:"PROM_FILE" default:"auto" words:"none" usage:"metrics for the node exporter; auto: in its directory, if there is one; none: no file"`

	// Where HTTP is answered, as HOST:PORT; an empty HOST is every address of the node. With none, no port is open. Reports and
	// requests for a scan are answered only over TLS and with a password: see web_config_file. An address with the prefix
	// probes= answers /healthz and /readyz without TLS and password, and nothing else, for the probes of a kubelet.
	WebListenAddress []string `key:"web_listen_address" type:"HOST:PORT" default:"none" usage:"where HTTP is answered; may be repeated"`

	// Prometheus' web configuration: TLS and passwords, as for the node exporter. It is read again for each connection. With
	// none, only metrics and probes are answered.
	WebConfigFile string `key:"web_config_file" type:"FILE" default:"none" usage:"TLS and passwords for HTTP, as for the node exporter"`

	// The least level of the program's own messages. What was moved, removed or kept is recorded at every level.
	LogLevel slog.Level `key:"log_level" type:"debug|info|warn|error" default:"info" reload:"yes" usage:"the least level of messages"`
}

// Setting is one setting, as the tags of its field describe it.
type Setting struct {
	Field, Key, Flag string
	Type             string // the placeholder of its value, or all values that it can have
	Default, Usage   string
	Least            string   // the least value, "" for none
	Words            []string // values besides those of its type: the default if it is a word
	List             bool     // several values
	Reload           bool     // a reload changes it; the others need a restart
	Shared           bool     // a command beside the daemon uses the daemon's value
	index            int
}

// Words that stand for a value.
const (
	Auto = "auto" // the program finds the value
	None = "none" // there is no value
)

// Table lists all settings, in the order of Settings.
var Table = func() (all []Setting) {
	for f := range reflect.TypeFor[Settings]().Fields() {
		s := Setting{
			Field: f.Name, Key: f.Tag.Get("key"), Type: f.Tag.Get("type"), Default: f.Tag.Get("default"), Usage: f.Tag.Get("usage"),
			Least: f.Tag.Get("least"),
			Words: strings.Fields(f.Tag.Get("words")), List: f.Type.Kind() == reflect.Slice, Reload: f.Tag.Get("reload") != "",
			Shared: f.Tag.Get("shared") != "", index: f.Index[0],
		}
		s.Flag = strings.ReplaceAll(s.Key, "_", "-")
		if s.Default == Auto || s.Default == None {
			s.Words = append(s.Words, s.Default)
		}
		all = append(all, s)
	}
	return all
}()
