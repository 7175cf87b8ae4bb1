package confine

import (
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// landlockABI is the first version that can allow a rename between directories (REFER, Linux 5.19), which park
// needs.
const landlockABI = 2

// handledSince lists the rights that each version of Landlock's ABI can refuse (landlock(7), "Filesystem
// actions"). A kernel rejects a ruleset with an unknown right. The thread has such a right only where a rule
// grants it.
//
// Landlock's scopes and the rights to networks and sockets are left out: the Go runtime sends signals from
// every thread to every other, and a batch uses no network.
var handledSince = [...]struct {
	abi    int
	rights uint64
}{
	{1, ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSWriteFile |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | makeAny},
	{2, ll.AccessFSRefer},
	{3, ll.AccessFSTruncate}, // Linux 6.2
	{5, ll.AccessFSIoctlDev}, // Linux 6.10
}

// The rights of a batch in and below a directory. None allows it to execute or truncate a file or to control a device.
const (
	makeAny = ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
	// mayRead is for /proc.
	mayRead = ll.AccessFSReadFile | ll.AccessFSReadDir
	// MayMove is for the pods directory and the quarantine. A rename between them may gain no right (EXDEV), in
	// either direction, and renaming a file into a directory requires the right to create its type there.
	MayMove = mayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | makeAny | ll.AccessFSRefer
	// MayReplace is for the CNI directories: it allows to write, make and remove regular files, but not to rename
	// them to another directory.
	MayReplace = mayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveFile | ll.AccessFSMakeReg
)

// handledBy returns the rights that a kernel of this version can refuse, or 0 before landlockABI.
func handledBy(abi int) (handled uint64) {
	if abi < landlockABI {
		return 0
	}
	for _, h := range handledSince {
		if abi >= h.abi {
			handled |= h.rights
		}
	}
	return handled
}

// Landlock reports whether batches are confined, for messages.
func (r *Runner) Landlock() policy.Fact {
	switch {
	case r.abiErr != nil:
		return policy.Fact{Truth: policy.No, Detail: "the kernel has none, or a filter of system calls hides it: " + r.abiErr.Error()}
	case r.abi < landlockABI:
		return policy.Fact{Truth: policy.No, Detail: fmt.Sprintf("ABI %d cannot allow a rename between directories; ABI 2 (Linux 5.19) is needed", r.abi)}
	}
	return policy.Fact{Truth: policy.Yes, Detail: fmt.Sprintf("ABI %d: a batch can change nothing but below the directories that it has opened", r.abi)}
}

// Grant is a set of rights in and below an open directory.
type Grant struct {
	FD     int // -1 grants nothing
	Rights uint64
}

// Confine restricts the calling thread, until it ends, to reading and changing files below the given
// directories. The kernel refuses everything else with EACCES. The rules refer to the directories themselves
// and not to their paths. Descriptors that are already open can still be read and synced, but a removal through
// them needs a rule, since Landlock checks the place in the tree.
//
// It is for the thread of Run: a thread's restriction can never be lifted, threads that it starts inherit it,
// and the Go runtime starts none from a locked one. The calls are those of go-landlock's system call package;
// its high-level package restricts all threads of the process.
//
// If the kernel has no sufficient Landlock, nothing is confined. If it has and refuses, Confine returns an
// error, and the batch must not begin.
func (r *Runner) Confine(grants ...Grant) error {
	if r.handled == 0 {
		return nil
	}
	set, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: r.handled}, 0)
	if err != nil {
		return confineError("landlock_create_ruleset", err)
	}
	defer beneath.Close(set)
	// A batch reads /proc for the holder of a lock, for a message, and for mount IDs (beneath.MountID).
	if proc, err := beneath.OpenDirPath("/proc"); err == nil {
		defer beneath.Close(proc)
		grants = append(grants, Grant{proc, mayRead})
	}
	for _, g := range grants {
		if g.FD < 0 {
			continue
		}
		if err := ll.LandlockAddPathBeneathRule(set, &ll.PathBeneathAttr{ParentFd: g.FD, AllowedAccess: g.Rights & r.handled}, 0); err != nil {
			return confineError("landlock_add_rule", err)
		}
	}
	// landlock_restrict_self(2) requires this or CAP_SYS_ADMIN. It also affects only this thread.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return confineError("prctl", err)
	}
	if err := ll.LandlockRestrictSelf(set, 0); err != nil {
		return confineError("landlock_restrict_self", err)
	}
	return nil
}

func confineError(op string, err error) error {
	return fmt.Errorf("the kernel has Landlock and would not confine the batch by it, so nothing was begun: %s: %w", op, err)
}
