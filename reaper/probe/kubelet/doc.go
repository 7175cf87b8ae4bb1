// Package kubelet says which kubelet runs on this node and how it was told to run: its root
// directory, its runtime's socket, its ports and certificate, its static pods' manifests and
// its pods' log directories; and whether what the operator set agrees with that.
//
// A Reader has one Answer, on which the rest hangs: whoever asks for a port or a manifest
// hands back the Kubelet that was found. Which kubelet runs, and since when, comes from /proc:
// the start from /proc/PID/stat, on the clock that every decision uses. systemd's D-Bus would
// tell the unit's start, which is not the process's where k3s or rke2 starts a kubelet later,
// or again; it would tell nothing of a kubelet that is no unit; and it would be one more thing
// that can hang. Its files are opened as it sees them, in its mount namespace.
//
// It asks no kubelet anything over the network, enters no namespace, and decides about no pod.
// What cannot be read is an error, and so Unknown: a process that cannot be told might be a
// second kubelet.
//
// Versions: kubelets of 1.5 to 1.36 by flags, configuration file and drop-ins (since 1.28), alone
// or in hyperkube, k3s, rke2, k0s and microk8s. A kubelet with a mount namespace of its own
// needs openat2 with RESOLVE_IN_ROOT (Linux 5.6) and CAP_SYS_PTRACE.
package kubelet
