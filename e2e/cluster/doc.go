// Package cluster runs the chart in a cluster that is real but for its machines: etcd, kube-apiserver, controller-manager and
// scheduler, and three nodes, each a Debian booted in a container with its own systemd, journald, containerd and kubelet. make
// e2e-cluster runs it, as root on Debian.
//
// The suite has a network, a PID and a mount namespace of its own. A bridge in it joins the nodes, and the control plane
// listens on the bridge's address; there is no route to the outside. All processes, mounts and links end with the suite; a run
// that was killed leaves empty cgroups and a directory below /var/tmp, which the next one removes.
//
// Its steps are one story (story_test.go): the chart is installed in observe, enforces over the nodes, stops at a circuit
// breaker, goes on, and removes what is dead. A node takes more than four minutes to become ready in enforce, so the suite runs
// half an hour. It knows the program by its commands, its JSON and its records only.
package cluster
