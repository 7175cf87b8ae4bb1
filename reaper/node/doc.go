// Package node reads what the node shows about its pods. Scan returns it as a judge.Snapshot: one fact for each question, with
// the place where it was read.
//
// It changes nothing, decides nothing and returns no error. What cannot be read is Unknown, which keeps a pod, with its error
// in the fact's detail and in the snapshot's problems. A doubt that only time caused is marked as Busy.
//
// # The order of reads
//
// A pod that returns shows itself in a fixed order: the kubelet makes its cgroup, then its directories, its volumes, and its
// sandbox last (EnsureExists, makePodDataDirs, WaitForAttachAndMount; the same in 1.19 to 1.37). So a scan reads in the
// opposite order, and what shows a return first is read last:
//
//   - directory.go lists the names in the pods directory
//   - kubelet.go finds the kubelet whose root directory is ours
//   - podsapi.go reads the kubelet's own list, where it has one (1.37)
//   - runtime.go asks every container runtime
//   - mounts.go reads one mountinfo for each mount namespace and root, staged.go compares it with the pods' volumes
//   - cgroup.go reads the kubepods hierarchies
//   - directory.go reads the pods' directories, also of a pod whose name was not listed
//
// Processes are read once: /proc/PID/status of each, cgroup and cmdline of those that may be a kubelet, and later the first
// line of each mountinfo. Equal first lines are of the same mount namespace and root (facts that need no capability).
//
// # Limits
//
// Each sensor runs under a time limit that grows with the load of the machine. Its work never ends a scan: after the limit its
// facts are Unknown. Mount tables have a budget of bytes and entries for each pod, by cgroup, so that no pod makes another
// pod's facts Unknown.
//
// Not read: mount namespaces without a process, those that only a thread of a process has, and mounts outside the root of all
// processes that have them (mountinfo shows what can be reached from a process's root). Such a mount may be detached when its
// mount point is removed. No data is lost by that: what lies below the mount point in our namespace is removed only by its
// class.
package node
