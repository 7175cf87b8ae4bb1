// Package removal moves pod directories, or the content of one of their volume directories, to quarantine and
// back. In quarantine it removes what a plan allows. It removes nothing outside quarantine.
//
// It decides nothing: policy decides what may be removed, and the caller reads the mounts of all namespaces
// before each batch that removes, and after each batch that moves. It never unmounts, never clears an attribute
// and never follows a link. It opens three kinds of file: vol_data.json, whose content goes into the record, and
// userns and .DIGITS directly below a pod directory, whose content shows whether the kubelet wrote them
// (contents.ByText).
//
// Why it is safe:
//
//   - No joined path reaches the kernel. The kubelet's root and the quarantine's parent are
//     opened by their configured paths. Package beneath opens everything below them, one name
//     at a time, and every removal is unlinkat on the handle of a directory. The check for a
//     mount is part of the open, so there is no gap between check and use. A mount that
//     appears later covers the name, but not the open handle.
//   - A directory is identified by device, inode and birth time. A directory that has replaced
//     the judged one is not moved. After a move the identity is checked again in quarantine,
//     and a wrong directory is moved back. No rename replaces anything.
//   - Clear moves content out of a directory name by name, from handle to handle. If it stops
//     half way it is undone at once, or, after a kill, at the next start. The name of its entry
//     ends in policy.LeafSuffix, so that it is never exchanged with a pod directory.
//   - unlinkat never removes a mount point of this mount namespace or of a slave of it
//     (EBUSY). The kernel does not report a mount in a foreign namespace, so the caller scans
//     all of them, and the daemon refuses to enforce from a private one.
//   - Removal of a pod stops at the first mount, foreign file system, read-only or failing disk.
//   - A batch runs on its own threads, each of which restricts itself by Landlock if the kernel
//     has it (package confine). One thread moves, up to four remove, and each entry belongs to
//     one thread. Even if the code is wrong, it can read and change only files below the pods
//     directory and the quarantine that the batch has opened, and execute nothing. Landlock
//     also allows changes in file systems mounted below them, so it does not replace the steps
//     above. The configured directories are opened, and the quarantine is made, before the
//     restriction. Other threads read the node and write the ledger, the records and the log.
//   - Every 32 removals the open directories must still be in their parents: a tree that was
//     moved out of quarantine is no longer ours.
//   - Each action can be run again after kill -9 at any system call and then has the same
//     result. Each action documents the order of steps that makes this true.
//
// The system calls that unlink and rename are in package reaper/internal/change, and nowhere else.
//
// Any call blocks while the file system of the pods directory hangs: once its context has ended,
// Execute waits for a grace period, then returns and abandons the thread. A file system that is mounted below cannot block a call, because openat2 with
// NO_XDEV and statx with AT_STATX_DONT_SYNC do not access it.
package removal
