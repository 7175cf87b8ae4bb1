// Package fdpath opens the names of a directory that other processes may change: one name below a directory that is held
// open. Only what an administrator names is opened by its path. StatIn alone joins two names, to look at the second; ReadSeen
// alone opens a file without a handle, since no pod can write to a directory of CNI.
//
// An [Opener] has tested which system calls the kernel has. A [Dir] is a handle of a directory; Step, Identify and ReadFile
// open one name in it. A [Walker] walks a whole tree: the counts for display and the removal from quarantine are its
// visitors.
//
// The package opens, lists, reads and identifies. It changes nothing on the disk and decides nothing.
//
// # A step
//
// A step is one openat2(2) (Linux 5.6). Each of its flags stops an attack, and TestFlags shows that the attack succeeds
// without the flag:
//
//   - RESOLVE_BENEATH: the step ends below the open directory. It refuses "..", absolute paths, and a directory that is
//     moved away during the step.
//   - RESOLVE_NO_XDEV: the step ends on the mount of that directory. It refuses (EXDEV) a bind mount and any file system
//     that is mounted over the name between a check and the step. No request reaches the mounted file system, so a server
//     that is gone does not block the caller.
//   - RESOLVE_NO_SYMLINKS: no component is a symbolic link. O_NOFOLLOW covers the last component, which is a step's only
//     one; this flag covers a caller that forgets it.
//   - RESOLVE_NO_MAGICLINKS: no component is a link of procfs, which leads anywhere without a path. NO_SYMLINKS implies it
//     today; by openat2(2) it may not always.
//   - O_DIRECTORY: a file of any other type is refused (ENOTDIR) and not opened.
//   - O_NONBLOCK: without it, the open of a FIFO or device waits for its other end.
//   - O_NOATIME: reading changes no access time. If the caller may not use the flag, the step is repeated without it.
//   - O_PATH: the step returns a handle and opens nothing, so it calls no file system or driver.
//
// If the kernel has no openat2, or a filter of system calls hides it, a step opens a handle of the name with O_PATH and
// O_NOFOLLOW, compares the handle's mount with its parent's, and only then opens "." from the handle. The handle is bound
// to one mount and one directory, so a mount over the name in between changes nothing. A mount that is not known is
// refused. New tests once, at a real mount, which of the two ways stops there; afterwards a failure of openat2 never leads
// to the fallback.
//
// # A walk
//
// A walk is depth first and holds at most [MaxDepth] directories open. It stops at nothing by itself: what it cannot open
// or read, also a mount point (EXDEV) and another device without a mount (a btrfs subvolume), goes to the visitor.
package fdpath
