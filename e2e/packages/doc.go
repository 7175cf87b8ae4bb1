// Package packages holds the suite that installs the packages as an administrator would: on Debian releases
// that boot in containers, with a systemd of their own as PID 1, journald, apt, dpkg and rpm. make
// test-packages runs it, as root.
//
// The kubelet and the runtime are stand-ins (see standin); the suite above runs real ones. The guests have no
// network. Nothing is started on the machine itself, and the suite runs in a PID and a mount namespace of its
// own, so that it leaves nothing behind when it is killed.
package packages
