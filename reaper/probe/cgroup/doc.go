// Package cgroup reports which pods have a cgroup, whether a process is in it, and which
// containers have one.
//
// A Reader walks the hierarchies below one root, the unified one or those of version 1, and
// crosses the mounts between them; an Answer holds the pods. It follows no symbolic link, writes
// to no cgroup, and takes no cgroup below a pod's for another pod's. A pod's cgroup is a sign of
// life whether a process is in it or not: the kubelet makes it before the pod's directory and
// removes it itself. Whether the hierarchy is that of this node's kubelet is for policy.
//
// Versions: cgroups(7) of Linux 3.10 (version 1) and 4.5 (version 2), the names that the cgroupfs
// and systemd drivers of kubelets since 1.6 give, and all container runtimes' names of a scope.
package cgroup
