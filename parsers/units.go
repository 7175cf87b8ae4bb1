package parsers

import (
	"slices"
	"strings"
)

// kubelets are the names of programs that are a kubelet, or have one in them: kubelite is MicroK8s',
// kubenswrapper and openshift are OpenShift's (4 and 3), localkube was minikube's.
var kubelets = []string{"kubelet", "kubelite", "hyperkube", "kubenswrapper", "k3s", "rke2", "openshift", "localkube"}

// wrapping lists the words that distributions put around the kubelet's name.
var wrapping = []string{
	"wrapper", "daemon", "start", "run", "launch", "sh", "bash", "service", "snap",
	"microk8s", "k8s", "server", "agent", "worker", "node", "eks", "docker", "atomic", "kube", "kubernetes",
	"d8", "forker", // Deckhouse
}

// whole are names that stand for a kubelet without having its name: shells through
// which a unit starts one, and OpenShift Origin 3's unit. A shell writes nothing that
// looks like klog by itself.
var whole = []string{"sh", "bash", "dash", "origin-node", "origin-node.service"}

// kubeletProgram reports whether a kubelet logs under this program name: a kubelet's name with only wrapping
// words around it (kubelet, kubelet-wrapper, start-kubelet.sh, microk8s.daemon-kubelite, kubelet.service), or
// one of a few others. The text of no other program is parsed.
func kubeletProgram(name string) bool {
	if slices.Contains(whole, name) {
		return true
	}
	held := false
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' }) {
		switch {
		case slices.Contains(kubelets, word):
			held = true
		case !slices.Contains(wrapping, word) && !isVersion(word):
			return false
		}
	}
	return held
}

func isVersion(word string) bool {
	word = strings.TrimPrefix(word, "v")
	return word != "" && len(word) <= 4 && allDigits(word)
}

// kubeletUnits are the systemd units that run a kubelet, by distribution. Standalone
// kubelet, k3s, RKE2, k0s, MicroK8s (new and old), Canonical Kubernetes, Charmed Kubernetes,
// CoreOS, OpenShift 3.
var kubeletUnits = []string{
	"kubelet.service",
	"k3s.service", "k3s-agent.service",
	"rke2-server.service", "rke2-agent.service",
	"k0sworker.service", "k0scontroller.service",
	"snap.microk8s.daemon-kubelite.service", "snap.microk8s.daemon-kubelet.service",
	"snap.k8s.kubelet.service",
	"snap.kubelet.daemon.service", "snap.kubelet-eks.daemon.service",
	"kubelet-wrapper.service", "hyperkube.service",
	"atomic-openshift-node.service", "origin-node.service",
}

// comms are command names (_COMM) under which a kubelet or its wrapper writes, beside
// those that have its name: container clients that run one in the foreground, and k0s.
var comms = []string{"docker", "podman", "conmon", "nerdctl", "crictl", "rkt", "nsenter", "exe", "tini", "k0s"}

// KubeletUnits returns the units whose journal entries are trusted by default.
func KubeletUnits() []string { return slices.Clone(kubeletUnits) }

// trusts reports whether a kubelet wrote an entry, by the fields that journald itself adds. SYSLOG_IDENTIFIER is
// no such field: `logger -t kubelet` sets it. A unit that the operator named may run any command. An absent _COMM or
// _UID is no objection: output fields may have been chosen.
func (p *Parser) trusts(unit, comm, uid string) bool {
	if uid != "" && uid != "0" {
		return false
	}
	// As with systemctl, a name without a suffix is a service's.
	if slices.ContainsFunc(p.Units, func(name string) bool { return name != "" && (unit == name || unit == name+".service") }) {
		return true
	}
	// Which command of the unit wrote it matters less: kubelet-1.30 and start-kubelet.s, as cut by the kernel,
	// are kubelets, too; logger is not.
	known := comm == "" || kubeletProgram(comm) || strings.Contains(comm, "kubelet") || slices.Contains(comms, comm)
	return known && (slices.Contains(kubeletUnits, unit) || (p.RunsKubelet != nil && p.RunsKubelet(unit)))
}
