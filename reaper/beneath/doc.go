// Package beneath opens a name of the node that another process may change: one step below a directory that is open,
// never a joined path. Only the directories that the administrator names are opened by their paths.
//
// An Opener knows which system calls the kernel has. A Dir is a directory that is held open; Step, Walk,
// Identify and ReadFile open one name in it, and the caller closes the result. An error wraps an errno, unless
// it is unknown whether the name is a mount point.
//
// The package opens, lists, reads and identifies. It changes nothing on the disk and decides nothing.
//
// A step is one openat2(2). Each of its flags stops an attack, and TestFlags shows that the attack succeeds
// without the flag:
//
//   - RESOLVE_BENEATH: the step ends below the open directory. It refuses "..", absolute paths,
//     and a directory that is moved away during the step.
//   - RESOLVE_NO_XDEV: the step ends on the mount of that directory. It refuses (EXDEV) a bind
//     mount and any file system that is mounted over the name between a check and the step. No
//     request reaches the mounted file system, so a dead server does not block the caller.
//   - RESOLVE_NO_SYMLINKS: no component is a symbolic link. O_NOFOLLOW covers the last
//     component, which is a step's only one; this flag covers a caller that forgets O_NOFOLLOW.
//   - RESOLVE_NO_MAGICLINKS: no component is a link of procfs, which leads anywhere without a
//     path. NO_SYMLINKS implies it today; by openat2(2) it may not always.
//   - O_DIRECTORY: any other type of file is refused (ENOTDIR) and not opened.
//   - O_NONBLOCK: without it, the open of a FIFO or device waits for its other end.
//   - O_NOATIME: reading changes no access time. If the caller may not use the flag, the step
//     is repeated without it.
//   - O_PATH: the step returns a handle and opens nothing, so it calls no file system or driver.
//
// If the kernel has no openat2, or a system call filter hides it, a step opens a handle of the name with O_PATH
// and O_NOFOLLOW, compares the handle's mount with its parent's, and only then opens "." from the handle. The
// handle is bound to one mount and one directory, so a mount over the name in between changes nothing. Doubt
// about a mount is a refusal.
//
// New tests once, at a real mount, which of the two ways stops there. Afterwards a failure of openat2 never
// leads to the fallback.
package beneath
