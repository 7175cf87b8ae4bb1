package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Journalctl is the program that reads the journal, and the root directory in which it runs. The zero
// value is the program on PATH.
type Journalctl struct {
	Program string
	Root    string
}

// nodeRoot is the root directory of PID 1, in its mount namespace. Opening it needs CAP_SYS_PTRACE
// (proc_pid_root(5)).
const nodeRoot = "/proc/1/root"

// ownPIDNamespace links to the PID namespace of this process. initialPIDNamespace is the link's target in the
// machine's initial one: PROC_PID_INIT_INO of linux/proc_ns.h.
const (
	ownPIDNamespace     = "/proc/self/ns/pid"
	initialPIDNamespace = "pid:[4026531836]"
)

// programs are the paths of distributions: /bin before /usr was merged, the last of NixOS.
var programs = []string{"/usr/bin/journalctl", "/bin/journalctl", "/run/current-system/sw/bin/journalctl"}

// FindJournalctl returns the program on PATH, or in a container without one the node's, which runs in the node's root
// directory with its libraries and journal. chroot(2) needs CAP_SYS_CHROOT. PID 1 is the node's only in the initial PID
// namespace: in any other its files may be any pod's. The error names what is missing.
func FindJournalctl() (Journalctl, error) {
	if _, err := exec.LookPath("journalctl"); err == nil {
		return Journalctl{}, nil
	}
	return nodesJournalctl(nodeRoot, ownPIDNamespace)
}

func nodesJournalctl(root, pidNamespace string) (Journalctl, error) {
	switch link, err := os.Readlink(pidNamespace); {
	case err != nil:
		return Journalctl{}, fmt.Errorf("no journalctl was found here, and it is not known whether PID 1 is the node's: %w", err)
	case link != initialPIDNamespace:
		return Journalctl{}, errors.New("no journalctl was found here, and PID 1 is not known to be the node's " +
			"(a container with the host's PID namespace can use the node's journalctl)")
	}
	var own, node unix.Stat_t
	if err := unix.Stat("/", &own); err != nil {
		return Journalctl{}, fmt.Errorf("cannot read the root directory: %w", err)
	}
	switch err := unix.Stat(root, &node); {
	case errors.Is(err, fs.ErrPermission):
		return Journalctl{}, errors.New("no journalctl was found here, and opening " + root + " to use the node's needs CAP_SYS_PTRACE")
	case err != nil:
		return Journalctl{}, fmt.Errorf("no journalctl was found here, and the node's cannot be used: cannot open %s: %w", root, err)
	case own.Dev == node.Dev && own.Ino == node.Ino:
		return Journalctl{}, errors.New("no journalctl was found here (a container with the host's PID namespace can use the node's)")
	}
	for _, program := range programs {
		// Lstat, since only after chroot(2) would a symlink begin at that root.
		if err := unix.Lstat(root+program, &node); err != nil {
			continue
		}
		if !mayChroot() {
			return Journalctl{}, errors.New("no journalctl was found here, and starting the node's needs CAP_SYS_CHROOT")
		}
		return Journalctl{Program: program, Root: root}, nil
	}
	return Journalctl{}, errors.New("no journalctl was found, neither here nor on the node")
}

// mayChroot reports whether this process has CAP_SYS_CHROOT.
func mayChroot() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&head, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_CHROOT) != 0
}

// path is the PATH of the child: ours, since a node to try things on has its own journalctl, and the usual directories.
func path() string {
	return os.Getenv("PATH") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// NodeRoot returns the directory in which this process finds the node's own files: "" on the node, and the root directory of
// PID 1 in a container with the node's PID namespace.
func NodeRoot() string {
	var own, node unix.Stat_t
	link, err := os.Readlink(ownPIDNamespace)
	if err != nil || link != initialPIDNamespace || unix.Stat("/", &own) != nil || unix.Stat(nodeRoot, &node) != nil ||
		own.Dev == node.Dev && own.Ino == node.Ino {
		return ""
	}
	return nodeRoot
}

// Journals returns the directories in which journald keeps a journal of the node (journald.conf(5), Storage=).
func Journals() []string {
	root := NodeRoot()
	return []string{root + "/run/log/journal", root + "/var/log/journal"}
}
