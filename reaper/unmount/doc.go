// Package unmount detaches the mounts below a dead pod's directory, one at a time, for an operator's command. The daemon never
// does this, and lacks the capability for it.
//
// It decides nothing: policy decides which mounts may be detached and gives the permit. The caller shows the mounts to the
// operator first, and looks for signs of life before each unmount. The package mounts and removes nothing.
//
// Why it is safe:
//
//   - No joined path reaches the kernel. The pods directory is opened by the administrator's path, and every step below it
//     is one name (package beneath). A step crosses a mount only if its ID is among the pod's known mounts.
//   - The call is umount2(2) of one name in the directory of the mount point, which is held open, with UMOUNT_NOFOLLOW. The
//     topmost mount there must have the ID that was shown to the operator, read with statx(2) immediately before.
//   - MNT_DETACH is never used: a mount that a process uses, in this namespace or as a copy in another, is busy and kept. No
//     process loses an open file. MNT_FORCE is never used: no write is lost.
//   - Between the statx and the call another process may mount something over the mount, and the call detaches that instead: a
//     mount that is new and unused. A held handle cannot prevent this, since it would make the mount busy. Only a process with
//     CAP_SYS_ADMIN over the node's mount namespace, or over one that shares its mounts, can do it. If a process in another
//     namespace renames a directory that is a mount point here, the mount moves along: the name then is no mount, or one with
//     another ID.
//   - Package mounts finds what else the kernel would detach: copies at other places, and mounts in a slave of a slave. A
//     mount of a deleted file is kept. Use of a CSI volume's device without a mount is not detected.
//   - The wait for the server of a mounted file system is bounded: see checkAnswers.
package unmount
