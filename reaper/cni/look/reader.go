package look

import (
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Reader says where CNI's files are, and what to look at besides.
type Reader struct {
	// CacheDirs are the directories below which libcni, Multus and flannel keep what they need for
	// a teardown, and DataDirs host-local's, besides those that a configuration names.
	CacheDirs, DataDirs []string
	// ConfDir has the network configurations. ConfDirSet says that the operator chose it; else
	// those of distributions below NodeRoot and of the runtimes at Sockets are read besides.
	ConfDir    string
	ConfDirSet bool
	NodeRoot   string
	Sockets    []string
	NetnsDirs  []string // where network namespaces are bound
	// TaskDirs have an entry for each container that runs, and Stores for each that an engine
	// besides the kubelet's has: see UsualTaskDirs and UsualStores.
	TaskDirs, Stores []string
	ProcDir          string
	Now              func() policy.Instant
	Open             *beneath.Opener
	Guard            *bounded.Guard
	Chunk            int // the most files of a chunk, 0 for the usual
}

// Asked is what the caller has asked after it has read a chunk.
type Asked struct {
	Node policy.Node // but for RuntimeLists
	// Lists are the answers of the runtime's sockets, or Unasked is why there are none.
	Lists   []cri.Lists
	Sockets cri.Sockets
	Unasked error
	Cgroups Cgroups
	Errors  []error // what could not be asked, for people
}

// Cgroups are the container IDs in the names of cgroups, each with a path.
type Cgroups struct {
	Found map[string]string
	Kube  bool // there is a kubepods hierarchy
	Err   error
}
