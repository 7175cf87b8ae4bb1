// Package unmount detaches what is mounted below a dead pod's directory, one mount at a time, for an operator's command.
// The daemon never does, and lacks the capability for it.
//
// It decides nothing: policy decides what may go and gives the permit, and the caller shows each mount to the operator
// before and asks for signs of life before each. It mounts nothing and removes nothing.
//
// Why it is safe:
//
//   - No joined path reaches the kernel. The pods directory is opened by the administrator's path; every step below it is
//     one name by package beneath. A step crosses a mount only where that one, by its ID, is among the pod's known mounts.
//   - The call is umount2(2) of one name in the directory that has the mount point, which is held open, with
//     UMOUNT_NOFOLLOW: no link is followed. The topmost mount there must have the ID that was shown, read by statx(2)
//     immediately before.
//   - Never MNT_DETACH: a mount that any process uses, in this namespace or as a copy in another, is busy and kept. A
//     process with an open file never loses it. Never MNT_FORCE: no write is given up.
//   - A held handle of the mount itself would make it busy, so between the reading of the ID and the call another
//     process may mount something on top, and that would be detached in its place: it was mounted a moment ago and nothing uses it.
//     Only a process with CAP_SYS_ADMIN over the node's mount namespace, or over one that shares its mounts, can do that.
//     A process in another namespace may rename a directory that is a mount point here; that takes the mount along, and
//     what then has the name is no mount or one with another ID.
//   - What else the kernel would detach is for package mounts: copies at other places, and what a slave of a slave has
//     mounted there. A mount of a deleted file stays. Use of a CSI volume's device without a mount is not detected.
//   - No server of a mounted file system is waited for without bound: see answers.
package unmount
