package confine

import (
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// landlockABI is the first version in which a rename from one directory to another can be
// allowed at all (REFER, Linux 5.19): before it nothing could be parked.
const landlockABI = 2

// handledSince are the rights that each version of Landlock's ABI brought to refuse
// (landlock(7), "Filesystem actions"). A kernel refuses a ruleset with a right that it does
// not know. Right is what the thread then has only where a rule gives it.
//
// Neither its scopes nor the rights to networks and sockets are among them: the Go runtime
// sends signals from every thread to every other, and a batch has no network to lose.
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

// What a batch may do in and below a directory. Nobody may execute, truncate, or control a
// device.
const (
	makeAny = ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
	// MayRead is for what is only counted.
	MayRead = ll.AccessFSReadFile | ll.AccessFSReadDir
	// MayMove is for the pods directory and for the quarantine: what is renamed from one to the
	// other may gain no right by that (EXDEV), and it goes both ways. To make any type of file
	// is what a rename of it into the directory is called.
	MayMove = MayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | makeAny | ll.AccessFSRefer
	// MayReplace is for a directory of CNI's: files only, and none out of it or into it.
	MayReplace = MayRead | ll.AccessFSWriteFile | ll.AccessFSRemoveFile | ll.AccessFSMakeReg
)

// handledBy returns the rights that a kernel of this version can refuse, 0 where that would
// not do.
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

// Grant is what may be done in and below a directory that is open.
type Grant struct {
	FD     int // -1 is none
	Rights uint64
}

// Confine keeps the calling thread, until it ends, to reading and changing what lies below
// the given directories: whatever the code that runs on it gets wrong, the kernel says
// EACCES. The rules hold on to the directories and not to their paths. What is open already
// stays usable for reading and syncing, but nothing is removed through it that no rule
// allows, since that is asked for the place in the tree.
//
// It is for the thread of Run: a thread's own restriction can never be
// taken back, threads that it starts inherit it, and the Go runtime starts none from a
// locked one. The calls are those of go-landlock's system call package; its other one
// restricts all threads of the process.
//
// Where the kernel has no Landlock that would do, nothing is confined. Where it has and
// refuses, that is an error, and the batch must not begin.
func (r *Runner) Confine(grants ...Grant) error {
	if r.handled == 0 {
		return nil
	}
	set, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: r.handled}, 0)
	if err != nil {
		return confineError("landlock_create_ruleset", err)
	}
	defer beneath.Close(set)
	// For the messages that name who holds a lock, and for mount IDs (beneath.MountID); neither is
	// needed where there is no /proc.
	if proc, err := beneath.OpenDirPath("/proc"); err == nil {
		defer beneath.Close(proc)
		grants = append(grants, Grant{proc, MayRead})
	}
	for _, g := range grants {
		if g.FD < 0 {
			continue
		}
		if err := ll.LandlockAddPathBeneathRule(set, &ll.PathBeneathAttr{ParentFd: g.FD, AllowedAccess: g.Rights & r.handled}, 0); err != nil {
			return confineError("landlock_add_rule", err)
		}
	}
	// landlock_restrict_self(2) wants this, or CAP_SYS_ADMIN; it, too, is the thread's own.
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
