// Package kubelet finds the running kubelet of this node and its configuration: its root directory,
// its runtime's socket, its port and certificate, its static pods' manifests and its pods' log
// directories. It also reports whether the settings agree with that.
//
// A Reader finds the running Kubelet, which is an argument of its other methods. The start time of the kubelet
// comes from /proc/PID/stat, on the clock of every decision: systemd has only that of the unit, and k3s or
// rke2 may start its kubelet later, or again. The kubelet's files are opened as it sees them, in its mount
// namespace.
//
// It sends the kubelet nothing, enters no namespace, and decides about no pod. What cannot be read is an
// error: a process that cannot be read might be another kubelet.
//
// Versions: kubelets of 1.5 to 1.37 by flags, configuration file and drop-ins (since 1.28), alone
// or in hyperkube, k3s, rke2, k0s and microk8s. A kubelet with a mount namespace of its own
// needs openat2 with RESOLVE_IN_ROOT (Linux 5.6) and CAP_SYS_PTRACE.
package kubelet
