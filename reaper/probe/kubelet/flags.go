package kubelet

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The programs that are or contain a kubelet. rke2, k0s and the distributions' packages run a
// program named kubelet.
const (
	nameKubelet   = "kubelet"
	nameHyperkube = "hyperkube" // Kubernetes up to 1.18, OpenShift
	nameK3s       = "k3s"
	nameKubelite  = "kubelite" // microk8s
)

// SplitCmdline splits /proc/PID/cmdline. A program that replaces it by a title, as k3s does to hide
// tokens, leaves one string with spaces, padded with NULs.
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
// A script named kubelet also has this name, but its command line begins with the interpreter,
// followed by the script (execve(2)). A shell whose arguments mention a kubelet has neither.
func parseCommand(comm string, args []string) (*Kubelet, bool) {
	if len(args) == 0 {
		return nil, false // a kernel thread or a zombie
	}
	base, rest := filepath.Base(args[0]), args[1:]
	k := &Kubelet{name: base, args: rest}
	if k.isKubelet() {
		return k, true
	}
	k.name = comm
	for i, a := range rest[:min(2, len(rest))] {
		if filepath.Base(a) == comm {
			k.script, k.args = true, rest[i+1:]
			break
		}
	}
	return k, k.isKubelet()
}

// isKubelet reports whether the program runs a kubelet, by its name and arguments. It removes the
// subcommand from the arguments.
func (k *Kubelet) isKubelet() bool {
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

// versioned matches a program name with a version: kubelet-v1.34.4, kubelet_1.30.
var versioned = regexp.MustCompile(`^kubelet[-_.]?v?[0-9][-0-9A-Za-z._+]*$`)

// kubeletOnly has flags that no other program of Kubernetes has.
var kubeletOnly = [...]string{"root-dir", "container-runtime-endpoint", "pod-manifest-path", "bootstrap-kubeconfig", "config-dir", "register-node"}

// renamed reports whether it is a kubelet with another program name: one with a version, or one with kubelet as
// a part (kubelet.real, node-kubelet) and flags that only a kubelet has. Other programs have such names, too
// (kubelet-csr-approver).
func (k *Kubelet) renamed() bool {
	words := strings.FieldsFunc(k.name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	is := versioned.MatchString(k.name) || slices.Contains(words, nameKubelet) &&
		slices.ContainsFunc(kubeletOnly[:], func(name string) bool { return len(flags(k.args).all(name)) > 0 })
	if is {
		k.name = nameKubelet
	}
	return is
}

// flags is a command line as the kubelet parses it: --name=value or --name value, an underscore is a
// dash, and the last value wins.
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
