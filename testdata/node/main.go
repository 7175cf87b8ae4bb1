// Node makes a Kubernetes node to try orphan-reaper on, and runs a command in it:
//
//	node [--kubelet 1.19|1.28|1.33|1.37] [--log text|json|syslog|journal] [--cgroup v1|v2] [--every 2s] [--pods FILE] DIR -- COMMAND [ARG…]
//
// The node has PID, mount and cgroup namespaces of its own, and for an ordinary user a user namespace. It ends with
// COMMAND, whose exit code is returned. Its files are below DIR and stay there. Nothing else of the machine is changed:
// in the node's mount namespace /sys/fs/cgroup, /run and /var/log are others, and /var/lib/kubelet, /var/lib/cni and
// /etc/cni/net.d, if the machine has them.
//
// COMMAND has the caller's environment, and in addition
//
//	OR_FLAGS       flags with which every orphan-reaper command that reads a node reads this one
//	NODE_PODS      the kubelet's pods directory
//	NODE_CNI       what a node has in /var/lib/cni
//	NODE_CNI_CONF  what a node has in /etc/cni/net.d
//	NODE_LOG       the kubelet's log, as text also with --log journal
//	NODE_CTL       a file: each line that is appended to it changes the node (node --help; program/control.go). NODE_CTL.done then gets
//	               "ok LINE", or "error LINE: REASON"
//
// program/pods.go has the states and the words of FILE, and the pods without FILE.
//
// DIR may be that of an earlier node: what lies there stays, and the pods of FILE are made again.
//
// What is real: the processes and their PIDs, files, mounts, sockets and gRPC services. What is played: the kubelet
// (internal/kubelet), the container runtime (package fakecri), journald, syslogd and journalctl (internal/journal), and the
// cgroup file system: it is a tmpfs, and a rmdir first in PATH removes cgroups with their files. A kubelet that starts does not
// reconstruct volumes, and a runtime does not start containers by itself. make e2e compares the kubelet's lines about 32
// leftovers with those of real kubelets.
package main

import (
	"os"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/program"
)

func main() {
	// Its file may have any name.
	code, ok := program.Main()
	if !ok {
		os.Args[0] = program.Name
		code, _ = program.Main()
	}
	os.Exit(code)
}
