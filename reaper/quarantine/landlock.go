package quarantine

import (
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// landlockABI is the first version that can allow a rename between directories (REFER, Linux 5.19).
const landlockABI = 2

// refusable lists the rights that each version of Landlock's ABI can refuse (landlock(7), "Filesystem actions"). A kernel
// rejects a ruleset with an unknown right. Landlock's scopes and the rights to networks and sockets are left out: the Go
// runtime sends signals from every thread to every other, and a batch uses no network.
var refusable = [...]struct {
	abi    int
	rights uint64
}{
	{1, ll.AccessFSExecute | mayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | mayMake},
	{2, ll.AccessFSRefer},
	{3, ll.AccessFSTruncate}, // Linux 6.2
	{5, ll.AccessFSIoctlDev}, // Linux 6.10
}

const (
	mayMake = ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
	mayRead = ll.AccessFSReadFile | ll.AccessFSReadDir
	// mayMove is for the pods directory and the quarantine. A rename between them may gain no right (EXDEV), in either
	// direction, and renaming a file into a directory needs the right to create its type there.
	mayMove = mayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | mayMake | ll.AccessFSRefer
)

// landlock restricts threads.
type landlock struct {
	abi int
	err error
	// handled are the rights that a thread has only where a grant allows them. 0 restricts nothing.
	handled uint64
}

// newLandlock asks the kernel for its version of Landlock.
func newLandlock() (l landlock) {
	if l.abi, l.err = ll.LandlockGetABIVersion(); l.err == nil {
		l.handled = handledBy(l.abi)
	}
	return l
}

// handledBy returns the rights that a kernel of this version can refuse, or 0 before landlockABI.
func handledBy(abi int) (handled uint64) {
	for _, r := range refusable {
		if abi >= max(r.abi, landlockABI) {
			handled |= r.rights
		}
	}
	return handled
}

// fact reports whether batches are restricted, for display.
func (l landlock) fact() judge.Fact {
	switch {
	case l.err != nil:
		return judge.Fact{Truth: judge.No, Detail: "the kernel has none, or a filter of system calls hides it: " + l.err.Error()}
	case l.abi < landlockABI:
		return judge.Fact{Truth: judge.No, Detail: fmt.Sprintf("ABI %d cannot allow a rename between directories; ABI 2 (Linux 5.19) is needed", l.abi)}
	}
	return judge.Fact{Truth: judge.Yes, Detail: fmt.Sprintf("ABI %d: a batch can change nothing but below the directories that it has opened", l.abi)}
}

// restrict restricts the calling thread, until it ends, to reading and changing files below the given directories. The
// kernel refuses everything else with EACCES. The rules refer to the directories themselves and not to their paths. A
// descriptor that is already open can still be read and synced, but a removal through it needs a rule, since Landlock checks
// the place in the tree.
//
// It is for a thread that ends with the batch: a restriction can never be lifted, threads that it starts inherit it, and the
// Go runtime starts none from a locked one. The calls are those of go-landlock's system call package; its high-level package
// restricts all threads of the process.
//
// If the kernel has no sufficient Landlock, nothing is restricted. If it has and refuses, the batch must not begin.
func (l landlock) restrict(q *Quarantine, dirs ...*fdpath.Level) error {
	if l.handled == 0 {
		return nil
	}
	set, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: l.handled}, 0)
	if err != nil {
		return landlockError("landlock_create_ruleset", err)
	}
	defer fdpath.Close(set)
	grant := func(fd int, rights uint64) error {
		return ll.LandlockAddPathBeneathRule(set, &ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: rights & l.handled}, 0)
	}
	// fdpath reads mount IDs in /proc, and opens a file of a handle there.
	if proc, err := q.open.Open("/proc"); err == nil {
		defer proc.Close()
		if err := grant(proc.FD(), mayRead); err != nil {
			return landlockError("landlock_add_rule", err)
		}
	}
	for _, dir := range dirs {
		if dir == nil {
			continue
		}
		if err := grant(dir.FD(), mayMove); err != nil {
			return landlockError("landlock_add_rule", err)
		}
	}
	// landlock_restrict_self(2) requires this or CAP_SYS_ADMIN. It also affects only this thread.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return landlockError("prctl", err)
	}
	if err := ll.LandlockRestrictSelf(set, 0); err != nil {
		return landlockError("landlock_restrict_self", err)
	}
	return nil
}

func landlockError(op string, err error) error {
	return fmt.Errorf("the kernel has Landlock and would not confine the batch by it, so nothing was begun: %s: %w", op, err)
}
