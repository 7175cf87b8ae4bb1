// Package packages holds the suite that installs the packages where an administrator
// would: on Debian releases that boot in containers, with a systemd of their own as PID 1,
// journald, apt, dpkg and rpm. make test-packages runs it, as root.
//
// The kubelet and the runtime are stand-ins (see standin): what real ones say and do is the
// matter of the suite above. The guests have no network. Nothing is started on the machine
// itself, and the suite runs in a PID and a mount namespace of its own, so that nothing
// stays when it is killed.
package packages
