// Package runtime reports the sandboxes and containers that the node's container runtimes have of each pod.
//
// A Reader requests all sandboxes and containers from every socket, and merges the lists into one Answer. A
// pod that any runtime lists exists, whatever else has failed. A pod that none lists is gone only if every
// socket answered, all lists are complete, and at least one pod is listed. A socket without CRI is left out if it
// was only found at a usual place and another one answers. A sandbox or container with some of the kubelet's
// labels but no pod UID may be any pod's.
//
// It changes nothing in a runtime, keeps no connection between two looks, and does not search for sockets: the
// caller provides them. Policy decides whether a sandbox keeps a pod.
//
// Versions: those of package cri.
package runtime
