// Package mounts reports what is mounted of which pod, in every mount namespace of the node.
//
// A Reader reads mountinfo of all processes, and the namespaces that no process shows in whole:
// by listmount(2), by a thread that enters them, or by the runtime's specification of the container that
// is alone in one. An Answer holds the mounts that name a pod that was asked for, or a place below
// the kubelet's plugins directory. What counts is where a mount lies by device; a name in a path
// is a hint. A namespace that cannot be read makes all that was not found unknown.
//
// It mounts and unmounts nothing, asks no file system across a mount, and enters a namespace on a
// thread that ends with it only; Unmount is a command for an operator, and Below reads what that is about. Which pods are
// asked for, which namespaces a descriptor holds and where the runtime's sockets are comes from the caller. Whether a
// mount keeps a pod is for policy.
//
// Versions: mountinfo of Linux 3.10, statx(2) with mount IDs of 5.8, listmount(2) of 6.13.
package mounts
