package node

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// command is the command line of a process that is a kubelet by its program or first argument.
type command struct {
	args     flags
	embedded bool // k3s: the kubelet's flags are values of --kubelet-arg
	script   bool // an interpreter runs it
}

// splitCmdline splits /proc/PID/cmdline. A program that replaces it by a title, as k3s does to hide tokens, leaves one string
// with spaces, padded with NULs.
func splitCmdline(b []byte) []string {
	b = bytes.TrimRight(b, "\x00")
	switch {
	case len(b) == 0:
		return nil
	case bytes.IndexByte(b, 0) < 0 && bytes.ContainsRune(b, ' '):
		return strings.Fields(string(b))
	}
	return strings.Split(string(b), "\x00")
}

// parseCommand reports whether a process is a kubelet, by its name and its command line. The command line of a script named
// kubelet begins with its interpreter, followed by the script (execve(2)). A shell whose arguments mention a kubelet has
// neither.
func parseCommand(comm string, args []string) (command, bool) {
	if len(args) == 0 {
		return command{}, false // a kernel thread or a zombie
	}
	if c, ok := kubeletCommand(filepath.Base(args[0]), args[1:]); ok {
		return c, true
	}
	for i, arg := range args[1:min(3, len(args))] {
		if filepath.Base(arg) == comm {
			c, ok := kubeletCommand(comm, args[i+2:])
			c.script = true
			return c, ok
		}
	}
	return kubeletCommand(comm, args[1:])
}

func kubeletCommand(name string, args []string) (command, bool) {
	sub := ""
	if len(args) > 0 {
		sub = strings.TrimPrefix(args[0], "/")
	}
	switch name {
	case "kubelet", "kubelite": // kubelite: microk8s
		return command{args: args}, true
	case "hyperkube": // up to Kubernetes 1.18, OpenShift
		return command{args: args}, sub == "kubelet"
	case "k3s-server", "k3s-agent":
		return command{args: args, embedded: true}, true
	case "k3s":
		return command{args: args, embedded: true}, sub == "server" || sub == "agent"
	}
	return command{args: args}, renamed(name, args)
}

// versioned matches a program name with a version: kubelet-v1.34.4, kubelet_1.30.
var versioned = regexp.MustCompile(`^kubelet[-_.]?v?[0-9][-0-9A-Za-z._+]*$`)

// kubeletOnly has flags that no other program of Kubernetes has.
var kubeletOnly = [...]string{"root-dir", "container-runtime-endpoint", "pod-manifest-path", "bootstrap-kubeconfig", "config-dir", "register-node"}

// renamed reports whether it is a kubelet with another program name: one with a version, or one with kubelet as a part
// (kubelet.real) and flags that only a kubelet has. Other programs have such names, too (kubelet-csr-approver).
func renamed(name string, args flags) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return versioned.MatchString(name) || slices.Contains(words, "kubelet") &&
		slices.ContainsFunc(kubeletOnly[:], func(flag string) bool { return len(args.all(flag)) > 0 })
}

// flag returns the last value of one of the kubelet's flags, "" if it is not set.
func (c command) flag(name string) string {
	args := c.args
	if c.embedded { // --kubelet-arg=root-dir=/x, also with the kubelet's own dashes
		args = nil
		for _, arg := range c.args.all("kubelet-arg") {
			args = append(args, "--"+strings.TrimLeft(arg, "-"))
		}
	}
	values := args.all(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// flags is a command line as the kubelet parses it: --name=value or --name value, an underscore is a dash, and the last value
// wins.
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

// verbosity returns the value of the kubelet's -v, 0 if it is not set: -v=2, -v2, -v 2, and --v.
func (c command) verbosity() int {
	long := c
	long.args = make(flags, 0, len(c.args))
	for _, arg := range c.args {
		if value, ok := strings.CutPrefix(arg, "-v"); ok && strings.Trim(value, "=0123456789") == "" {
			arg = "--v"
			if value = strings.TrimPrefix(value, "="); value != "" {
				arg += "=" + value
			}
		}
		long.args = append(long.args, arg)
	}
	n, _ := strconv.Atoi(long.flag("v")) // klog's default is 0
	return n
}
