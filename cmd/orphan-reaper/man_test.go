package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const manDir = "../../packaging/man"

// roff escapes text for roff: no escapes, no request at a line's start, and hyphens that survive copying a flag.
func roff(text string) string {
	text = "\n" + strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace(text)[1:]
}

// prose writes text in which an empty line separates paragraphs, with a macro of man(7) between them.
func prose(text, between string) string {
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		parts[i] = roff(strings.Join(human.Wrap(part, 92), "\n")) + "\n"
	}
	return strings.Join(parts, between+"\n")
}

// item writes a bold term and its meaning.
func item(term, text string) string { return ".TP\n.B " + roff(term) + "\n" + prose(text, ".IP") }

// commands returns the commands that can be run, in the order of --help.
func commands(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range root.Commands() {
		switch {
		case c.HasSubCommands():
			all = append(all, commands(c)...)
		case c.IsAvailableCommand() && c.Name() != "help":
			all = append(all, c)
		}
	}
	return all
}

func testRoot() *cobra.Command {
	env := func(string) string { return "" }
	return newRootCommand(&cli{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), env: env, given: map[string][]string{}})
}

// flagItem writes a flag with its names, its value and its default; a zero only if it is a setting.
func flagItem(f *pflag.Flag, setting bool) string {
	if f.Hidden {
		return ""
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value, usage := pflag.UnquoteUsage(f)
	if f.DefValue != "" && (setting || !slices.Contains([]string{"false", "0", "0s", "[]"}, f.DefValue)) {
		usage += " (default " + f.DefValue + ")"
	}
	return item(strings.TrimSpace(name+" "+value), usage)
}

// commandSections returns the generated sections of orphan-reaper(8).
func commandSections() map[string]string {
	root := testRoot()
	synopsis, all, options, exit, reasons := ".nf\n", "", "", "", ""
	for _, c := range commands(root) {
		synopsis += `\fB` + roff(c.CommandPath()) + `\fR`
		if args := strings.TrimPrefix(strings.TrimSuffix(c.UseLine(), " [flags]"), c.CommandPath()); args != "" {
			synopsis += ` \fI` + roff(args[1:]) + `\fR`
		}
		synopsis += "\n"
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		all += ".SS " + roff(c.CommandPath()) + "\n" + prose(long, ".PP")
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				all += flagItem(f, false)
			}
		})
		if c.Example != "" {
			all += ".PP\n.nf\n.RS 4\n" + roff(strings.TrimSpace(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"))) + "\n.RE\n.fi\n"
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { options += flagItem(f, true) })
	for line := range strings.Lines(exitCodes) {
		if code, text, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			exit += item(code, text)
		}
	}
	for _, a := range ui.Reasons {
		reasons += item(string(a.Reason), a.Means+"\n\n"+ui.AdviceOf(a.Reason, &policy.Evidence{Unmount: "unmount"}).Advice)
	}
	return map[string]string{"SYNOPSIS": synopsis + ".fi\n", "COMMANDS": all, "OPTIONS": options, "EXIT STATUS": exit, "REASONS": reasons}
}

// keySections returns the generated section of orphan-reaper.yaml(5).
func keySections() map[string]string {
	c, keys := config.Default(), ""
	for i := range config.Settings {
		s := &config.Settings[i]
		value := strings.Join(s.Values(&c), ", ")
		if v, ok := foundOut[s.Key]; ok {
			value = "found out; mostly " + v
		}
		text := manual[s.Key] + "\n\nDefault: " + value + "."
		if len(s.Choices) > 0 {
			text += " One of " + strings.Join(s.Choices, ", ") + "."
		}
		change := "Needs a restart."
		if s.Live {
			change = "A reload changes it."
		}
		keys += item(s.Key, text+" "+change+" Flag: --"+s.Flag+".")
	}
	return map[string]string{"KEYS": keys}
}

// TestManPages checks that the generated sections agree with the code, from their first item, command or line on. The
// text before that and the other sections are written by hand.
func TestManPages(t *testing.T) {
	for name, sections := range map[string]map[string]string{"orphan-reaper.8": commandSections(), "orphan-reaper.yaml.5": keySections()} {
		text, err := os.ReadFile(filepath.Join(manDir, name))
		testkit.Must(t, err)
		page := string(text)
		for heading, body := range sections {
			before, rest, ok := strings.Cut(page, "\n.SH "+heading+"\n")
			first, _, _ := strings.Cut(body, "\n")
			at := strings.Index(rest, first[:3])
			end := strings.Index(rest, "\n.SH ")
			if !ok || at < 0 || end < at {
				t.Fatalf("%s has no section %s that begins with %s and ends with another", name, heading, first[:3])
			}
			page = before + "\n.SH " + heading + "\n" + rest[:at] + body + rest[end+1:]
		}
		testkit.Golden(t, filepath.Join(manDir, name), page)
	}
}

// TestManConfigExample checks that the page's example is a valid configuration.
func TestManConfigExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(manDir, "orphan-reaper.yaml.5"))
	testkit.Must(t, err)
	_, example, _ := strings.Cut(string(page), ".RS 4\n")
	example, _, ok := strings.Cut(example, ".RE\n")
	if _, err := loadText(t, strings.ReplaceAll(example, `\-`, "-")); err != nil || !ok {
		t.Errorf("%v: %s", err, example)
	}
}

// TestManPagesRead checks that mandoc(1) reads the pages without a warning.
func TestManPagesRead(t *testing.T) {
	mandoc := testkit.NeedCommand(t, "mandoc")
	files, err := filepath.Glob(manDir + "/*")
	testkit.Must(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		file := testkit.File(t, filepath.Base(name), strings.Replace(string(text), "@DATE@", "2026-01-01", 1))
		out, err := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "warning", file).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// manual documents each key of the configuration file, beside its default, its choices and its flag. It is the
// source of packaging/config.yaml and of orphan-reaper.yaml(5). An empty line separates paragraphs.
var manual = map[string]string{
	"root_dir": `The kubelet's root directory, as its --root-dir. If you leave it out, the kubelet that runs is asked. Name it only where several ` +
		`kubelets run, to show which one you mean. If you name a directory that no running kubelet uses, nothing is removed (reason contradiction).`,
	"mode": `enforce acts. observe looks, judges and records what would be done. It changes nothing, not even in quarantine.

On a node that you do not know, start with observe, and read the journal before you enforce.`,
	"hold": `How long the evidence against a pod must stay good. Two looks at least this far apart must agree, and the pod's directory must not have ` +
		`changed for this time. With 0s one look is enough; use that on no node.`,
	"confirm": `How long a pod that was moved to quarantine waits for a sign of life before anything of it is removed. A kubelet makes the directory of ` +
		`a living pod again within 3 minutes, so less than that is no proof. 0s is allowed only with "hold: 0s", for tests and demos.`,
	"retention": `How long emptyDir content stays in quarantine, and an archive of CNI files in the state directory. Where the disk nears the kubelet's ` +
		`eviction thresholds, emptyDir content is removed after 10 minutes. What may be data of a user is never removed by itself.`,
	"max_per_look": `The most pods that are moved in one look; 0 is no limit.`,
	"quarantine_dir": `Where pods are moved to. It must be on the same mount as the pods directory, so that moving is one rename, and must not be in that ` +
		`directory. While anything lies in one quarantine, another one is refused.`,
	"state_dir": `Where the ledger, the holds, the places in the logs and the archives of CNI files are kept. It must belong to root, and only root may ` +
		`be able to write to it. It is made if it is missing.`,
	"log_sources": `Where the kubelet's log is read: journald, file, or both. auto is journald where it runs, else the files; on RKE2 also the file into ` +
		`which its kubelet writes. For any other kubelet that writes a file of its own, set file here, and name that file in log_files. A pod ` +
		`is released only by a report of the running kubelet.`,
	"journal_units": `The units that run a kubelet. If systemd started the running kubelet in another service, that one is found, too. Lines ` +
		`of other units ` +
		`do not count. A list here replaces all of these.`,
	"log_files": `The logs that are followed where files are read: those into which syslog writes the kubelet's lines, or the kubelet's own. They may be ` +
		`rotated. A list here replaces this one.`,
	"runtime_endpoint": `The container runtime's CRI socket. auto uses the kubelet's, else the usual places. If you name ` +
		`another socket than ` +
		`the kubelet's, nothing is removed (reason contradiction).

none, only with "node_namespaces: self", states that there is neither kubelet nor runtime here: for tests and demos.`,
	"node_namespaces": `auto acts only from the mount namespace of the node's first process, or from a slave of it: from any other the ` +
		`node's mounts cannot be ` +
		`seen. self states that this process's own namespaces are the node: for tests and demos.`,
	"cgroup_root": `Where the cgroup file system is mounted. If the cgroups of the pods that run are not found there, nothing is removed.`,
	"kubelet_token_file": `A bearer token for the kubelet's own port. The kubelet is then asked for its pods at each look. The token must be ` +
		`allowed to get ` +
		`nodes/pods, nodes/metrics and nodes/healthz (Kubernetes 1.33 and later; before that nodes/proxy, which also lets its holder start ` +
		`programs in pods). If the kubelet's list has a pod, the pod is kept. If a complete list does not have it, the pod may be removed even ` +
		`if the kubelet's log never names it.`,
	"kubelet_client_certificate": `A client certificate for the kubelet's own port, instead of a token. On control planes of kubeadm: ` +
		`/etc/kubernetes/pki/apiserver-kubelet-client.crt.`,
	"kubelet_client_key": `The key of that certificate. none if it is in the same file.`,
	"kubeconfig": `A kubeconfig for the API server. The API server is then asked for the pods that are bound to this node. The node's own credentials may ` +
		`do that: on nodes of kubeadm /etc/kubernetes/kubelet.conf. A kubeconfig that starts programs (exec) is refused.`,
	"node_name": `The name under which the API server knows this node. auto reads it from the credentials, else from the kubelet, else from the host. ` +
		`Used with kubeconfig, and in what HTTP answers.`,
	"api_unreachable": `What happens while the API server that kubeconfig names cannot be asked. keep: everything is kept. ignore: the other facts decide ` +
		`alone.`,
	"cni_cache_dir": `libcni's cache. Multus and flannel keep their files below it, too.`,
	"cni_data_dir": `host-local's dataDir, with a directory of addresses for each network. If a configuration in cni_conf_dir names another ` +
		`dataDir, that is ` +
		`read as well.`,
	"cni_conf_dir":   confDirMeaning,
	"cni_older_than": `How old what CNI left must be before it is judged.`,
	"metrics_file": `Where the metrics for the node exporter's textfile collector go. The name must end in .prom. auto writes orphan-reaper.prom into the ` +
		`first usual directory that exists, such as /var/lib/prometheus/node-exporter. No directory is made. When the daemon is stopped, it removes the file. none writes no metrics.`,
	"web.listen_addresses": `Where HTTP is answered, each as HOST:PORT. The word systemd stands for the sockets that orphan-reaper.socket opens. ` +
		`Without an address no ` +
		`port is open. /metrics, /healthz and /readyz answer everybody. /v1/orphans and POST /v1/sweep answer clients of this host, and clients ` +
		`that have shown who they are by web.config_file. Nothing can be removed, restored or resumed over HTTP.`,
	"web.config_file": `A web configuration of Prometheus: TLS, passwords (basic_auth_users) and client certificates, as for the node ` +
		`exporter. A change in it ` +
		`is used from the next request on. none: plain HTTP, without authentication.`,
	"log_level":  `The least level of the program's own log lines. The journal has the records of what was removed or kept whatever this is.`,
	"log_format": `How the program's log lines and records are written. auto is journal below systemd, text elsewhere. json is one object on each line.`,

	"node_root": "The directory below which all usual places are: the directories of this file and the file itself, logs, the runtime's sockets, " +
		"network namespaces. A path that another key names is used as it is. With another directory than / nothing elsewhere on this machine is " +
		`read or changed. Only processes, mounts and block devices are seen as the kernel shows them. Allowed only with "node_namespaces: self", ` +
		`for tests and demos.`,
}

const confDirMeaning = `Where the runtime has its network configurations (network_dir of CRI-O). ` +
	`If you do not set it, those of K3s, RKE2 and MicroK8s, and those that containerd names, are read as well. ` +
	`Addresses of a network that none of them names may be another engine's. They stay, unless a cache file shows whose they are.`
