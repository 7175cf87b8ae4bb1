// Package cgroup reports which pods have a cgroup, whether a process is in it, and which containers
// have one.
//
// A Reader walks the hierarchies below one root, the unified one or those of version 1, across the
// mounts between them. An Answer has the cgroups of pods. The walk follows no symbolic link, and ends at
// a pod's cgroup: a pod below it is not one of this node. It writes to no cgroup. Policy decides whether
// the hierarchy is that of this node's kubelet.
//
// Versions: cgroups(7) of Linux 3.10 (version 1) and 4.5 (version 2), the names that the cgroupfs
// and systemd drivers of kubelets since 1.6 give, and all container runtimes' names of a scope.
package cgroup
