// Package e2e holds the suite that runs orphan-reaper beside real programs: Debian's
// containerd and runc, and kubelets built from their own source, standalone with static
// pods. make e2e runs it, as root; the packages below a real systemd are the matter of the
// package packages.
//
// It is a module of its own, so that what only a kubelet needs never meets the go.mod of
// what ships. Everything that the programs write lies in one temporary directory, but for
// the few places that they have built in; host_test.go lists those, takes away what was
// not there before, sets back the kernel settings, and fails the run where anything is
// left. It ends processes by what it started, never by name.
package e2e
