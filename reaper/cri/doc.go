// Package cri is the one client of container runtimes: it dials a unix socket, calls the
// Container Runtime Interface in whichever of its two versions the runtime speaks, and has
// the labels by which the kubelet marks what it has a runtime make.
//
// It judges nothing and remembers nothing: an answer is handed on as the runtime gave it,
// and a connection lives as long as its caller needs it, so that a runtime costs nothing
// between two looks. Which socket is asked, and what an answer means, is for its callers.
//
// Versions: containerd since 1.0 and CRI-O since 1.0 speak v1alpha2, containerd since 1.6
// and CRI-O since 1.20 speak v1, whose messages have the same fields for all that is read
// here. Sockets of the kubelet's own gRPC services are dialled in the same way.
package cri
