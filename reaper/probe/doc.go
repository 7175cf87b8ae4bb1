// Package probe reads the node: pod directories, the mounts of all namespaces, cgroups,
// the kubelet's state files, staged volumes, processes, runtime and kubelet.
//
// It never changes anything on the node and judges nothing: what it reads becomes facts,
// and whatever it cannot read becomes Unknown, which keeps. Directories are opened from a
// handle by one name at a time (package beneath), so that a look follows neither a symlink nor a
// mount. Nothing but directories and a few known regular files is ever opened. No file system is
// asked for anything across a mount, since a dead one never answers.
//
// Containers asks for all containers of the node, for a product beside the core (reaper/cni).
//
// Why this is fast: each source is read once per look, not once per pod, and pods are
// found in what was read by looking their UIDs up in a hash table.
package probe
