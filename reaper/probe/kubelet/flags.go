package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The programs that are a kubelet or hold one. rke2, k0s and the distributions' packages
// run a kubelet under its own name.
const (
	nameKubelet   = "kubelet"
	nameHyperkube = "hyperkube" // Kubernetes up to 1.18, OpenShift
	nameK3s       = "k3s"
	nameKubelite  = "kubelite" // microk8s
)

// Where microk8s and k3s keep what is not on their command lines.
const (
	microk8sCommon  = "/var/snap/microk8s/common"
	microk8sData    = "/var/snap/microk8s/current"
	microk8sRootDir = microk8sCommon + "/var/lib/kubelet"
	k3sConfig       = "/etc/rancher/k3s/config.yaml"
	k3sDataDir      = "/var/lib/rancher/k3s"
	flagDataDir     = "data-dir" // k3s's own flag, which its kubelet's flags carry along
)

// maxConfig bounds a configuration file. Only root's and our own processes come so far as
// to have one read: nobody else can have us open a file.
const maxConfig = 1 << 20

// SplitCmdline splits /proc/PID/cmdline. A program that shows a title in its place (k3s
// does, to hide tokens) leaves one string with spaces and pads it with NULs.
func SplitCmdline(b []byte) []string {
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return nil
	}
	if isTitle(b) {
		return strings.Fields(string(b))
	}
	return strings.Split(string(b), "\x00")
}

func isTitle(cmdline []byte) bool {
	cmdline = bytes.TrimRight(cmdline, "\x00")
	return bytes.ContainsRune(cmdline, ' ') && bytes.IndexByte(cmdline, 0) < 0
}

// parseCommand says whether a process is a kubelet, by its name and its command line.
//
// A script named kubelet has that name too, but its command line begins with the
// interpreter, followed by the script (execve(2)). A shell whose arguments merely mention
// a kubelet has neither the name nor the first argument.
func parseCommand(comm string, args []string) (*Kubelet, bool) {
	if len(args) == 0 {
		return nil, false // a kernel thread or a zombie
	}
	base, rest := filepath.Base(args[0]), args[1:]
	k := &Kubelet{name: base, args: rest}
	if k.holdsKubelet() {
		return k, true
	}
	k.name = comm
	for i, a := range rest[:min(2, len(rest))] {
		if filepath.Base(a) == comm {
			k.script, k.args = true, rest[i+1:]
			break
		}
	}
	return k, k.holdsKubelet()
}

// holdsKubelet says whether the program of that name and arguments runs a kubelet, and
// takes a subcommand off the arguments.
func (k *Kubelet) holdsKubelet() bool {
	var subcommand string
	if len(k.args) > 0 {
		subcommand = strings.TrimPrefix(k.args[0], "/")
	}
	switch k.name {
	case nameKubelet, nameKubelite:
		return true
	case "k3s-server", "k3s-agent":
		k.name = nameK3s
		return true
	case nameHyperkube:
		if subcommand != nameKubelet {
			return false
		}
	case nameK3s:
		if subcommand != "server" && subcommand != "agent" {
			return false
		}
	default:
		return k.renamed()
	}
	k.args = k.args[1:]
	return true
}

// versioned is a kubelet's program with its version in its name: kubelet-v1.34.4, kubelet_1.30.
var versioned = regexp.MustCompile(`^kubelet[-_.]?v?[0-9][-0-9A-Za-z._+]*$`)

// kubeletOnly are flags that no other program of Kubernetes has.
var kubeletOnly = [...]string{"root-dir", "container-runtime-endpoint", "pod-manifest-path", "bootstrap-kubeconfig", "config-dir", "register-node"}

// renamed says whether it is a kubelet whose program has another name: a version in it, or
// kubelet as one of its words (kubelet.real, node-kubelet) and flags that only a kubelet takes. There are
// others with that word, as kubelet-csr-approver.
func (k *Kubelet) renamed() bool {
	words := strings.FieldsFunc(k.name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	is := versioned.MatchString(k.name) || slices.Contains(words, nameKubelet) &&
		slices.ContainsFunc(kubeletOnly[:], func(name string) bool { return len(flags(k.args).all(name)) > 0 })
	if is {
		k.name = nameKubelet
	}
	return is
}

// flags is a command line as pflag reads it: --name=value or --name value, the last one
// holds, and the kubelet takes an underscore for a dash.
type flags []string

func (f flags) all(name string) []string {
	var values []string
	for i, arg := range f {
		if arg == "--" {
			break
		}
		key, value, inline := strings.Cut(arg, "=")
		if strings.ReplaceAll(key, "_", "-") != "--"+name {
			continue
		}
		if !inline && i+1 < len(f) {
			value = f[i+1]
		}
		values = append(values, value)
	}
	return values
}

func (f flags) last(name string) string {
	if values := f.all(name); len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// effective returns the flags that the kubelet itself gets.
func (k Kubelet) effective() (flags, error) {
	switch own := flags(k.args); k.name {
	case nameKubelite:
		return k.kubeliteFlags(own)
	case nameK3s:
		return k.k3sFlags(own)
	default:
		return own, nil
	}
}

// kubeliteFlags reads microk8s's file of kubelet arguments: one a line, with the snap's
// variables.
func (k Kubelet) kubeliteFlags(own flags) (flags, error) {
	path := own.last("kubelet-args-file")
	if path == "" {
		return own, nil
	}
	b, err := k.files.read(path)
	if err != nil {
		return nil, err
	}
	snap := map[string]string{"SNAP": "/snap/microk8s/current", "SNAP_COMMON": microk8sCommon, "SNAP_DATA": microk8sData}
	var f flags
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = os.Expand(line, func(name string) string { return snap[name] })
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			if key, value, ok = strings.Cut(line, " "); !ok {
				f = append(f, line+"=")
				continue
			}
		}
		f = append(f, key+"="+strings.Trim(value, `"'`))
	}
	return f, nil
}

// k3sFlags turns k3s's own flags and its configuration file into the kubelet's. The
// command line wins: it comes last.
func (k Kubelet) k3sFlags(own flags) (flags, error) {
	path := own.last("config")
	named := path != ""
	if !named {
		path = k3sConfig
	}
	f := flags{"--" + flagDataDir + "=" + k3sDataDir}
	files, err := k.k3sDropIns(path + ".d")
	if err != nil {
		return nil, err
	}
	for _, file := range append([]string{path}, files...) {
		b, err := k.files.read(file)
		if errors.Is(err, fs.ErrNotExist) && !named {
			continue
		}
		if err != nil {
			return nil, err
		}
		var config map[string]any
		if err := yaml.Unmarshal(b, &config); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
		f = append(f, k3sValues(config)...)
	}
	if dir := own.last(flagDataDir); dir != "" {
		f = append(f, "--"+flagDataDir+"="+dir)
	}
	for _, arg := range own.all("kubelet-arg") {
		f = append(f, "--"+strings.TrimLeft(arg, "-"))
	}
	if e := own.last("container-runtime-endpoint"); e != "" {
		f = append(f, "--container-runtime-endpoint="+e)
	}
	return f, nil
}

func k3sValues(config map[string]any) flags {
	var f flags
	for _, key := range []string{"kubelet-arg", "kubelet-arg+"} {
		list, ok := config[key].([]any)
		if one, isString := config[key].(string); isString {
			list, ok = []any{one}, true
		}
		if !ok {
			continue
		}
		for _, v := range list {
			f = append(f, "--"+strings.TrimLeft(fmt.Sprint(v), "-"))
		}
	}
	for _, key := range []string{"container-runtime-endpoint", flagDataDir} {
		if v, ok := config[key].(string); ok && v != "" {
			f = append(f, "--"+key+"="+v)
		}
	}
	return f
}

// k3sDropIns lists the files of k3s's own drop-in directory, in their order.
func (k Kubelet) k3sDropIns(dir string) ([]string, error) {
	entries, err := k.files.list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var files []string
	for _, e := range entries {
		switch strings.ToLower(filepath.Ext(e.Name())) {
		case ".yaml", ".yml":
			if !e.IsDir() {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, err
}

// findRootDir returns --root-dir. A relative one starts at the process's working
// directory, the link cwd.
func (k Kubelet) findRootDir(cwd string) (string, error) {
	dir := k.flags.last("root-dir")
	switch {
	case dir == "" && k.name == nameKubelite:
		return microk8sRootDir, nil
	case dir == "":
		return DefaultRootDir, nil
	case filepath.IsAbs(dir):
		return filepath.Clean(dir), nil
	}
	base, err := os.Readlink(cwd)
	return filepath.Join(base, dir), err
}
