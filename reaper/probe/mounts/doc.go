// Package mounts reports the mounts of pods in all mount namespaces of the node.
//
// A Reader reads mountinfo of all processes. If no process of a namespace shows all of its mounts, the
// Reader uses listmount(2), a thread that enters the namespace, or the runtime's specification of the
// container that is alone in it. An Answer has the mounts that name a wanted pod or a place below the
// kubelet's plugins directory. The device decides where a mount lies; a name in a path is a hint. A
// namespace that cannot be read makes everything that was not found unknown. Below reads the mounts that
// an operator may want to unmount; Unmount returns the command for it.
//
// It mounts and unmounts nothing, asks no file system across a mount, and enters a namespace only on a
// thread that then ends. The caller provides the wanted pods, the namespaces that descriptors hold and the
// runtime's sockets. Policy decides whether a mount keeps a pod.
//
// Versions: mountinfo of Linux 3.10, statx(2) with mount IDs of 5.8, listmount(2) of 6.13.
package mounts
