// Package beneath is the one way to open a name: one step below a directory that is
// open, never a joined path. All of the safety of reading, moving and removing rests on it.
//
// An Opener has asked the kernel how steps are made. A Dir is a directory that is held open; Step,
// Walk, Identify and ReadFile take a name in it, and the caller closes what they return. An error
// wraps an errno; where it is not known whether a name is a mount point, it wraps none.
//
// It opens, lists, reads and identifies. It changes nothing on the disk, and it decides nothing.
//
// A step is one openat2(2). Each of its flags stands for an attack, and TestFlags shows that
// the attack succeeds where the flag is missing:
//
//   - RESOLVE_BENEATH: the step ends below the directory that is open. It refuses "..",
//     absolute paths, and a directory that is moved away in the middle of the step.
//   - RESOLVE_NO_XDEV: the step ends on the mount of that directory. It refuses (EXDEV) a
//     bind, a file system that is mounted there, and whatever is mounted over the name
//     between a check and the step. The mounted file system is not asked for anything,
//     so a dead server does not hang the caller.
//   - RESOLVE_NO_SYMLINKS: no component is a symbolic link. O_NOFOLLOW says so of the last
//     component, and a step has no other; this stands even if a caller forgets that flag.
//   - RESOLVE_NO_MAGICLINKS: no component is a link of procfs, which leads anywhere without a
//     path. NO_SYMLINKS implies it today; openat2(2) says that it may not always.
//   - O_DIRECTORY: whatever else has the name by now is refused (ENOTDIR) and not opened.
//   - O_NONBLOCK: without it, the open of a FIFO or device waits for its other end.
//   - O_NOATIME: a look changes no access time. Where the caller may not ask for that, the
//     step is taken again without it.
//   - O_PATH: the step gives a handle and opens nothing, so no file system or driver is asked.
//
// Where the kernel has no openat2, or a filter of system calls hides it, O_PATH and O_NOFOLLOW
// give a handle of the name, the handle's mount is compared with its parent's, and only then "."
// is opened from the handle. The handle is bound to one mount and one directory for good, so
// what is mounted over the name in between changes nothing. Doubt about a mount is a refusal.
//
// New asks the kernel once, at a real mount, which of the two stops there. After that no
// failure of the strong way is answered by the weak one.
package beneath
