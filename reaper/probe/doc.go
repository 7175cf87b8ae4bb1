// Package probe reads the node: pod directories, the mounts of all namespaces, cgroups, staged
// volumes, processes, runtime and kubelet.
//
// Probe.Look reads every source once, whatever the number of pods, and finds the pods in it by a hash table of
// their UIDs. It returns a policy.Look: the facts about each pod and the node. Still and Used read single facts again
// before a change. Containers is for a product beside the core (reaper/cni).
//
// It changes nothing on the node and judges nothing: what it cannot read is Unknown, which keeps. It opens one
// name at a time from a handle (package beneath), and so follows neither a symlink nor a mount. It opens only
// directories and a few known regular files, and asks no file system across a mount, since a dead one never answers.
package probe
