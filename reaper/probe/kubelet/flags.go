package kubelet

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The programs that are a kubelet or hold one. rke2, k0s and the distributions' packages
// run a kubelet under its own name.
const (
	nameKubelet   = "kubelet"
	nameHyperkube = "hyperkube" // Kubernetes up to 1.18, OpenShift
	nameK3s       = "k3s"
	nameKubelite  = "kubelite" // microk8s
)

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

// parseCommand reports whether a process is a kubelet, by its name and its command line.
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

// holdsKubelet reports whether the program of that name and arguments runs a kubelet, and
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

// renamed reports whether it is a kubelet whose program has another name: a version in it, or
// kubelet as one of its words (kubelet.real, node-kubelet) and flags that only a kubelet takes. There are
// others, such as kubelet-csr-approver.
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
