// Package e2e holds the suite that runs orphan-reaper beside real programs: Debian's containerd and runc, and
// kubelets built from their own source, standalone with static pods. make e2e runs it, as root; package
// packages tests the packages below a real systemd.
//
// It is a module of its own, to keep a kubelet's dependencies out of the go.mod of the product. Everything that
// the programs write is in one temporary directory, except for the few places that are built in. host_test.go
// lists those, removes what was not there before, resets the kernel settings, and fails the run if anything
// remains. It ends only processes that it started, never by name.
package e2e
