// Package cluster runs the chart in a cluster that is real but for its machines: etcd, kube-apiserver,
// controller-manager and scheduler, and two nodes, each a Debian booted in a container with its own systemd,
// journald, containerd and kubelet. make e2e-cluster runs it, as root on Debian.
//
// The suite has a network, a PID and a mount namespace of its own. A bridge in it joins the nodes, and the
// control plane listens on the bridge's address; there is no route to the outside. All processes, mounts and
// links end with the suite; a run that was killed leaves empty cgroups and a directory below /var/tmp, which
// the next one removes.
//
// The scenarios are the steps of TestCluster, a file for each group of them. They use:
//
//   - cluster (cluster_test.go): kubectl and apply, and how to wait for the cluster;
//   - node (node_test.go): a Debian in its container: path and run reach into it, withoutKubelet has its kubelet die;
//   - release (release_test.go): the chart as helm has installed it, and the daemon of a node: scan, look, tells, token;
//   - remains (orphans_test.go): residue that the kubelet does not remove, and its fate;
//   - ask (rights_test.go): a request with any token, from within a node.
//
// A scenario leaves the cluster as it found it: nodes ready, kubelets running, the chart with short times only (upgrade).
// A new one is a function func(*testing.T, *cluster) in a file of its group, and a line in steps (main_test.go).
//
//	make e2e-cluster TESTFLAGS="-v -run 'TestCluster/(the_daemons_become|a_kubeconfig)'"
//
// runs one, with the first, which sets the short times.
package cluster
