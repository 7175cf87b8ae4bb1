// Package guest runs the package in virtual machines: Debian's cloud
// kernel under qemu, without KVM, so that it runs wherever CI does. A container shares this
// machine's kernel and cgroups; a machine has its own.
//
// TestNode boots a Debian with systemd on cgroup v2. The DEB is installed there beside containerd and a kubelet, once with
// each cgroup driver. The work is done by node.sh.
//
// make test-guest calls it; e2e/guest/prepare.sh gets the kernels.
package guest
