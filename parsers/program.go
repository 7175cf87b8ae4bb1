package parsers

import (
	"slices"
	"strings"
)

// kubelets are the names of programs that hold a kubelet.
var kubelets = []string{"kubelet", "kubelite", "hyperkube", "kubenswrapper", "k3s", "rke2"}

// wrapping are the words that distributions put around them.
var wrapping = []string{
	"wrapper", "daemon", "start", "run", "launch", "sh", "bash", "service", "snap",
	"microk8s", "server", "agent", "worker", "node", "eks", "docker",
}

// shells may stand for a kubelet that a unit starts through them. A shell writes
// nothing that looks like klog by itself.
var shells = []string{"sh", "bash", "dash"}

// kubeletProgram reports whether a transport's program name is one under which
// kubelets log: a kubelet's name with nothing but wrapping words around it (kubelet,
// kubelet-wrapper, start-kubelet.sh, microk8s.daemon-kubelite, kubelet.service), or a
// shell. Any other program's text names nothing, whatever it says.
func kubeletProgram(name string) bool {
	if slices.Contains(shells, name) {
		return true
	}
	held := false
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' }) {
		switch {
		case slices.Contains(kubelets, word):
			held = true
		case !slices.Contains(wrapping, word):
			return false
		}
	}
	return held
}

// kubeletUnits are the systemd units that run a kubelet, by distribution. Standalone
// kubelet, k3s, RKE2, MicroK8s (new and old), Charmed Kubernetes, CoreOS.
var kubeletUnits = []string{
	"kubelet.service",
	"k3s.service", "k3s-agent.service",
	"rke2-server.service", "rke2-agent.service",
	"snap.microk8s.daemon-kubelite.service", "snap.microk8s.daemon-kubelet.service",
	"snap.kubelet.daemon.service", "snap.kubelet-eks.daemon.service",
	"kubelet-wrapper.service", "hyperkube.service",
}

// comms are command names (_COMM) under which a kubelet or its wrapper writes, beside
// those that kubeletProgram knows: container clients that run one in the foreground.
var comms = []string{"docker", "podman", "nerdctl", "crictl", "rkt", "nsenter", "exe"}

// KubeletUnits returns the units whose journal entries are believed by default.
func KubeletUnits() []string { return slices.Clone(kubeletUnits) }

// trusted reports whether the fields that journald itself adds say that a kubelet
// wrote an entry. SYSLOG_IDENTIFIER is no such field: `logger -t kubelet` sets it. A
// unit that the operator named may run any command. An absent _COMM or _UID is no
// objection: output fields may have been chosen.
func (p *Parser) trusted(unit, comm, uid string) bool {
	if uid != "" && uid != "0" {
		return false
	}
	if slices.Contains(p.units, unit) {
		return true
	}
	// The kernel cuts a command's name at 15 bytes, "start-kubelet.s" being one.
	known := comm == "" || kubeletProgram(comm) || slices.Contains(comms, comm) ||
		(len(comm) == 15 && strings.Contains(comm, "kubelet"))
	return known && slices.Contains(kubeletUnits, unit)
}
