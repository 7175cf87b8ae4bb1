// Package cri is the client of container runtimes. It dials a unix socket, calls either version of the Container Runtime
// Interface, and has the labels with which the kubelet marks sandboxes and containers.
//
// It decides nothing and keeps no state: the caller chooses the socket and interprets the answer. A connection is closed after
// use, so that a runtime costs nothing between two looks.
//
// Versions: containerd since 1.0 and CRI-O since 1.0 have v1alpha2; containerd since 1.6 and CRI-O since 1.20 have v1. The
// fields that are read here are the same in both. The sockets of the kubelet's own gRPC services are dialled in the same way.
package cri
