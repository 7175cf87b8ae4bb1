package parsers

import (
	"slices"
	"strings"
)

// kubelets are the names of programs that are or contain a kubelet: kubelite is MicroK8s', kubenswrapper and openshift
// are OpenShift's (4 and 3), localkube was minikube's.
var kubelets = []string{"kubelet", "kubelite", "hyperkube", "kubenswrapper", "k3s", "rke2", "openshift", "localkube"}

// wrapping lists the words that distributions add to the kubelet's name.
var wrapping = []string{
	"wrapper", "daemon", "start", "run", "launch", "sh", "bash", "service", "snap",
	"microk8s", "k8s", "server", "agent", "worker", "node", "eks", "docker", "atomic", "kube", "kubernetes",
	"d8", "forker", // Deckhouse
}

// otherNames are program names of a kubelet without the word: shells that start one for a unit, and OpenShift Origin 3's
// unit. A shell itself writes nothing in klog's format.
var otherNames = []string{"sh", "bash", "dash", "origin-node", "origin-node.service"}

// kubeletProgram reports whether a kubelet logs under this program name: a kubelet's name with only wrapping words
// (kubelet, kubelet-wrapper, start-kubelet.sh, microk8s.daemon-kubelite, kubelet.service), or one of otherNames.
func kubeletProgram(name string) bool {
	if slices.Contains(otherNames, name) {
		return true
	}
	found := false
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' }) {
		switch {
		case slices.Contains(kubelets, word):
			found = true
		case !slices.Contains(wrapping, word) && !isVersion(word):
			return false
		}
	}
	return found
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

// comms are other command names (_COMM) of a kubelet or its wrapper: container clients that run one in the foreground,
// and k0s.
var comms = []string{"docker", "podman", "conmon", "nerdctl", "crictl", "rkt", "nsenter", "exe", "tini", "k0s"}

// KubeletUnits returns the units whose journal entries are trusted by default.
func KubeletUnits() []string { return slices.Clone(kubeletUnits) }

// trusts reports whether a kubelet wrote an entry, by the fields that journald itself adds. (`logger -t kubelet` sets
// SYSLOG_IDENTIFIER.) A unit that the operator named may run any command. _COMM and _UID may be absent, since the
// operator may have selected output fields.
func (p *Parser) trusts(unit, comm, uid string) bool {
	if uid != "" && uid != "0" {
		return false
	}
	// As for systemctl, a name without a suffix is a service.
	if slices.ContainsFunc(p.Units, func(name string) bool { return name != "" && (unit == name || unit == name+".service") }) {
		return true
	}
	// The command of the unit may have a version or be truncated by the kernel: kubelet-1.30, start-kubelet.s.
	known := comm == "" || kubeletProgram(comm) || strings.Contains(comm, "kubelet") || slices.Contains(comms, comm)
	return known && (slices.Contains(kubeletUnits, unit) || (p.RunsKubelet != nil && p.RunsKubelet(unit)))
}
