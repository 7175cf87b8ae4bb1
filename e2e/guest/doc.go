// Package guest runs the package in virtual machines: Debian's cloud
// kernel under qemu, without KVM, so that it runs wherever CI does. A container shares this
// machine's kernel, cgroups and security modules; a machine has its own.
//
//   - TestNode boots a Debian with systemd on cgroup v2. The DEB is installed there beside
//     containerd and a kubelet, once with each cgroup driver. The work is done by node.sh.
//
//   - TestSELinux boots a kernel that enforces Debian's policy with the module of packaging/selinux.
//     The daemon, and the tests of beneath and removal, run in its domain, and what the domain must
//     not do is refused. TestNever has the compiler check the module. The work is done by selinux.sh.
//     TestScriptlets installs, upgrades and erases the module's RPM in a chroot with semodule.
//
//   - TestAppArmor boots a kernel with AppArmor. Below containerd's profile for containers the daemon keeps all, and doctor
//     names it; without it the orphan goes. The work is done by apparmor.sh.
//
//   - TestChurn, for make churn-guest alone, runs the churn of the suite above on cgroup v2.
//
// make test-guest calls it; e2e/guest/prepare.sh gets kernel and policy.
package guest
