package policy

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Instant is one moment on two clocks: the wall's, for display and for file times, and
// CLOCK_BOOTTIME within one boot, for every decision about how long something lasts.
// The wall clock may jump; the boot clock cannot.
type Instant struct {
	Wall   time.Time     `json:"wall"`
	BootID string        `json:"boot_id"` // /proc/sys/kernel/random/boot_id
	Boot   time.Duration `json:"boot"`    // CLOCK_BOOTTIME, nanoseconds
}

// Since returns how long ago earlier was, and false where that cannot be known because
// the machine has booted in between.
func (i Instant) Since(earlier Instant) (time.Duration, bool) {
	if i.BootID == "" || i.BootID != earlier.BootID || earlier.Boot > i.Boot {
		return 0, false
	}
	return i.Boot - earlier.Boot, true
}

// Age returns how long ago earlier was. After a boot it is by the wall clock, but no longer than this boot has lasted: a
// machine without a battery clock boots into its past and then leaps over years.
func (i Instant) Age(earlier Instant) time.Duration {
	if since, ok := i.Since(earlier); ok {
		return since
	}
	return min(max(0, i.Wall.Sub(earlier.Wall)), i.Boot)
}

// DirID identifies a directory, also after another one has its name.
type DirID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Btime int64  `json:"btime"` // birth time, nanoseconds since the epoch; 0 where the file system has none
}

// KubeletID identifies one run of a kubelet.
type KubeletID struct {
	PID   int           `json:"pid"`
	Start time.Duration `json:"start"` // its start on CLOCK_BOOTTIME, from /proc/PID/stat
}

// ErrRootMoved is for a root directory that was found or guessed when the program started, if the one kubelet that runs now
// has another. Only a new start looks there.
var ErrRootMoved = errors.New("this is not the kubelet's root directory")

// ErrStateRemoved is for a state directory that was removed, or emptied, while it was open, and its locks with it. A new
// start makes it again.
var ErrStateRemoved = errors.New("the state directory was removed while it was in use")

// LogFormat is the kubelet's --logging-format.
type LogFormat string

// The formats that kubelets have; the zero value is that it is not known.
const (
	LogUnknown LogFormat = ""
	LogText    LogFormat = "text"
	LogJSON    LogFormat = "json"
)

// Node is what one look found out about the node itself.
type Node struct {
	// Kubelet reports whether a kubelet with our root directory runs, and KubeletID which.
	Kubelet   Fact
	KubeletID KubeletID
	// LogFormat is the format in which that kubelet logs, LogUnknown where it is not known.
	LogFormat LogFormat
	// RuntimeLists reports whether the runtime answered in time (Unknown: it did not) with
	// at least one sandbox (No: with none: a fresh runtime, or the wrong socket).
	RuntimeLists Fact
	// MayEnforce reports whether this process sees the node's own mounts and processes.
	MayEnforce Fact
	// Agrees reports whether the settings (root directory, the runtime's socket) agree with the kubelet that runs.
	Agrees Fact
	// FreeBytes and FreeInodes are what is free on the quarantine's file system, as a
	// share from 0 to 1; negative where it is not known.
	FreeBytes, FreeInodes float64
	// Gauges are the kubelet's own.
	Gauges KubeletGauges
}

// Residue is a file or directory of a dead pod.
type Residue struct {
	Path    string         `json:"path"` // relative to the pod directory, quoted where it is no clean UTF-8
	Class   contents.Class `json:"class"`
	Bytes   int64          `json:"bytes"`   // allocated bytes
	Entries int64          `json:"entries"` // directory entries, itself included
	// Partial is true where there is more below Path than was counted.
	Partial bool `json:"partial,omitempty"`
}

// Evidence is all that one look found of one entry of the pods directory, or of one parked pod.
type Evidence struct {
	Name      string         // the name in the pods directory; may hold any byte but slash and NUL
	UID       parsers.PodUID // "" where Name is no UID
	Entry     string         // the name in quarantine, "" for a pod that is not parked
	Namespace string         // the pod's namespace and name, "" if they are not known
	PodName   string
	// CertainName is true if these are the pod's own, and not the host name in its etc-hosts, which its spec may have
	// set to anything.
	CertainName bool
	ID          DirID
	// Changed is the later of the directory's birth and change times by the wall clock;
	// zero where it is not known.
	Changed time.Time
	Facts   Facts
	// Leaves are the volume directories that the kubelet cannot remove since they are not empty, if its volume manager
	// reports no other error.
	Leaves  []VolumeTeardown
	Residue []Residue
	// Unread is true if the content was passed over, since runtime or cgroups show that the pod lives.
	Unread bool
	// VolData holds the content of each vol_data.json by its path, for the record.
	VolData map[string]string
	// CgroupIdle is true where the pod has a cgroup, and no process is in it or below it.
	CgroupIdle bool
	// Unmount is the command with which an operator unmounts what was found, "" if there is none.
	Unmount string
	// RuntimeOnly is true if there is no such directory, and only the runtime has the pod.
	RuntimeOnly bool
	// Sandboxes are those that the runtime lists of the pod, if its list is complete; else none.
	Sandboxes []Sandbox
	// Made is when they and their containers were made.
	Made Span
	// Unmountable is true where the running kubelet reported that it does not remove the pod's directory since volumes of
	// it are left. That releases an unmount, and keeps the directory.
	Unmountable bool
	// Static is true where the runtime lists a sandbox of the pod that the kubelet made from a manifest or a
	// URL (annotation kubernetes.io/config.source), now or in an earlier look: such a pod returns under its UID.
	Static bool
	// Elder, of a parked pod, reports whether a mount of any namespace is in the directory in quarantine.
	Elder Fact
	// Unwanted is which list of the pods that are wanted on this node omits this one, "" if none does.
	Unwanted string
}

// Look is one gathering of facts about the whole pods directory.
type Look struct {
	At     Instant
	Node   Node
	Pods   []Evidence // one for each entry of the pods directory, sorted by name
	Parked []Evidence // one for each pod that is parked according to the request
	// Resting has one for each entry of the request that rests: signs of life, and no more.
	Resting []Evidence
	// RuntimeOnly has one for each pod that the runtime has and the pods directory has not.
	RuntimeOnly []Evidence
	// Listed has every pod of the pods directory or the runtime, also those that were not asked for.
	Listed map[parsers.PodUID]bool
	// Manifests are those of static pods, nil if none were read, and StaticSandboxes their sandboxes by the pods' names.
	Manifests       *StaticPods
	StaticSandboxes map[PodName][]StaticSandbox
	// Partial is true where only some pods were asked for: nothing can be counted.
	Partial bool
	// InRuntime is how many pods the runtime has, in any state, and KubeletLists how many the
	// kubelet's list of the pods that it wants; nil is not known.
	InRuntime, KubeletLists *int
	Errors                  []string // what could not be read, for display
}

// Means is how the kernel confines changes of the disk, for display.
type Means struct {
	// Openat2 reports whether the kernel itself stops each step at a mount, and why not.
	Openat2 Fact `json:"openat2"`
	// Landlock reports whether the kernel confines each batch to the directories of the batch,
	// whatever the code does, and why not.
	Landlock Fact `json:"landlock"`
}

// PodName is a pod's namespace and name.
type PodName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// IsDNSName reports whether s can be shown as the name of a namespace or pod: these are DNS
// subdomains, and anything else may hold control characters.
func IsDNSName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	return strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// ShortID is how crictl and ctr show an ID.
func ShortID(id string) string {
	if len(id) > 12 {
		id = id[:12]
	}
	if !IsDNSName(id) {
		return strconv.Quote(id)
	}
	return id
}
