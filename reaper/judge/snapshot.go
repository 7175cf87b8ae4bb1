package judge

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Snapshot is what one scan of the node found. It is complete when node.Scan returns, and nothing changes it afterwards.
type Snapshot struct {
	At   Instant `json:"at"` // before the first read of the scan
	Node Node    `json:"node"`
	// Pods are the entries of the pods directory and the pods that the caller asked for, sorted by name.
	Pods []Pod `json:"pods"`
	// Problems are what could not be read, for display. Each is also an Unknown fact of the pods that it concerns.
	Problems []string `json:"problems,omitempty"`
}

// Pod returns the pod of the UID. It returns false if the snapshot does not have it.
func (s *Snapshot) Pod(uid parsers.PodUID) (*Pod, bool) {
	for i := range s.Pods {
		if s.Pods[i].UID == uid {
			return &s.Pods[i], true
		}
	}
	return nil, false
}

// With returns the snapshot with the pods of a later scan of some of them.
func (s *Snapshot) With(later Snapshot) Snapshot {
	merged := *s
	merged.Node, merged.Pods = later.Node, slices.Clone(s.Pods)
	merged.Problems = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Problems, later.Problems))))
	for _, p := range later.Pods {
		if i := slices.IndexFunc(merged.Pods, func(was Pod) bool { return was.UID == p.UID }); i >= 0 {
			merged.Pods[i] = p
		} else {
			merged.Pods = append(merged.Pods, p)
		}
	}
	return merged
}

// Node is what one scan found about the node itself.
type Node struct {
	// Kubelet is the one kubelet whose root directory is ours. KubeletKnown is Yes if there is exactly one; otherwise
	// its detail has the PIDs, and nothing is released.
	Kubelet      Kubelet `json:"kubelet"`
	KubeletKnown Fact    `json:"kubelet_known"`
	// SeesMounts is Yes if this process sees the node's own processes and mounts: it is in the mount namespace of the
	// kubelet or in a slave of it, and in its PID namespace. unlinkat and rename detach a mount that only another
	// namespace has (measured, Linux 6.18), so without it nothing is removed.
	SeesMounts Fact `json:"sees_mounts"`
	// Name is the name of the Node object, as far as it is known here: for display.
	Name string `json:"name,omitempty"`
	// RuntimeKnown is Yes if every usual socket that connects gave a complete answer and one of them lists a pod that
	// has a directory here.
	RuntimeKnown Fact `json:"runtime_known"`
	// Journal is No if neither /run/log/journal nor /var/log/journal exists: only then a syslog file counts.
	Journal Truth `json:"journal"`
	// Pods directory and quarantine lie on one file system. FreeBytes and FreeInodes are what is free there, as a share
	// from 0 to 1, negative if not known.
	FreeBytes  float64 `json:"free_bytes"`
	FreeInodes float64 `json:"free_inodes"`
}

// Kubelet identifies one run of a kubelet, and where and how it logs.
type Kubelet struct {
	PID   int           `json:"pid"`   // in our PID namespace
	Inner int           `json:"inner"` // the last PID of NSpid: in the kubelet's own namespace, as in its log
	Start time.Duration `json:"start"` // its start on CLOCK_BOOTTIME, proc_pid_stat(5)
	Unit  string        `json:"unit,omitempty"`
	// Logs are the regular files that its fd 1 and 2 lead to, and RKE2's kubelet.log.
	Logs []LogFile `json:"logs,omitempty"`
	JSON Truth     `json:"json"` // does it log in JSON (--logging-format)? Unknown: the first own line decides
	// Verbosity is the -v of its command line. What /debug/flags/v has set since cannot be read.
	Verbosity int `json:"verbosity"`
}

// LogFile is a file that a kubelet writes its log to.
type LogFile struct {
	Path string `json:"path"`
	ID   FileID `json:"id"`
	// Own is true for fd 1 or 2 of the kubelet, and false for RKE2's kubelet.log, which RKE2 writes for it.
	Own bool `json:"own"`
}

// FileID identifies a file or directory, also after another one has its name.
type FileID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Btime int64  `json:"btime,omitempty"` // birth time, nanoseconds since 1970; 0 if the file system has none
}

// Same reports whether both are the same file, also if the machine has booted in between: device numbers change at a boot
// (dm, nvme, NFS).
func (id FileID) Same(other FileID) bool {
	return id.Ino == other.Ino && id.Btime == other.Btime && id != FileID{}
}

// Pod is what one scan found about one pod.
type Pod struct {
	Name string         `json:"-"`   // the name in the pods directory: any byte but slash and NUL
	UID  parsers.PodUID `json:"uid"` // "" if Name is no pod UID
	// Namespace and PodName are for display: from the runtime's labels, else PodName is the host name in etc-hosts.
	Namespace string `json:"namespace,omitempty"`
	PodName   string `json:"pod_name,omitempty"`
	// Static is true if the UID has no dashes, or a sandbox or list entry has kubernetes.io/config.source file or http:
	// such a pod returns under its UID, and is then restored without the breaker.
	Static bool `json:"static,omitempty"`
	// Present is Yes if pods/UID exists, whatever its type. Of a quarantined pod that shows a new directory.
	Present Truth  `json:"present"`
	ID      FileID `json:"id,omitzero"` // of the directory that was read
	// Skeleton has the directories that the kubelet makes first, to compare with the next scan.
	Skeleton Skeleton `json:"-"`
	// SkeletonOnly is Yes if nothing is in the directory but what a kubelet makes before a volume: empty directories,
	// etc-hosts, termination logs and vol_data.json. Only then is a new directory exchanged with the quarantined one.
	SkeletonOnly Truth `json:"-"`
	Facts        Facts `json:"-"`
}

// Skeleton is the state of pods/UID, volumes, volumes/*, plugins, plugins/*, containers and volume-subpaths. A pod that
// returns changes one of them before its sandbox is made (Kubelet.makePodDataDirs and the volumes come first).
type Skeleton struct {
	// Sum is a hash of path, inode, mtime and ctime of each. Two scans of an unchanged directory have the same sum.
	Sum uint64
	// Youngest is the latest mtime of a volume: of its vol_data.json, else of its directory; by the wall clock: one NodePublish runs for
	// up to two minutes and writes vol_data.json before it.
	Youngest time.Time
}
