// Package quarantine moves the directories of dead pods to quarantine and back, removes from there what a plan allows, and
// unmounts what keeps a dead pod busy. It removes nothing of a pod outside the quarantine. Unlink is the call by which package
// cni removes its files.
//
// It decides nothing: package judge decides what may be moved and removed, and the caller scans the node before each batch.
// It reads no process, runtime or ledger. It never follows a link, never clears an attribute, and opens three kinds of file
// to read them: vol_data.json, whose content goes into the outcome, and userns and .DIGITS directly below a pod's directory,
// whose content shows whether the kubelet wrote them.
//
// # Order of reading
//
// quarantine.go has the interface, batch.go the thread on which a batch runs, move.go and exchange.go the renames, remove.go
// and ascend.go the removal, disk.go all system calls that change anything. unmount.go is for the operator's command alone.
//
// # Why it is safe
//
//   - No joined path reaches the kernel. The kubelet's root and the quarantine's parent are opened by their configured paths,
//     and everything below them one name at a time (package fdpath). Every removal is unlinkat on the handle of a directory.
//     The check for a mount is part of the open, so there is no gap between check and use: a mount that appears later covers
//     the name, but not the open handle. The removal of a pod stops at the first mount, subvolume, read-only or failing disk.
//   - A directory is identified by device, inode and birth time. Another one that has its name is left alone. The identity is
//     checked again after a rename, and a wrong directory is moved back. No rename replaces anything. Two directories are
//     exchanged only if the newer one has nothing but what a kubelet makes first and no mount, which is checked on its
//     handles before and after the exchange. Then that skeleton is removed, also while the circuit breaker is open and in mode
//     observe: no other removal is allowed by the right to restore. It has only empty directories and the kubelet's own files,
//     which a kubelet makes again. If it stayed, it would be an entry that only an operator ends.
//   - In a pod's directory each name has its class by its path (package content). A tree of a class that may not be removed is
//     kept whole; if it has only directories it is removed by rmdir alone, which removes no file that comes meanwhile.
//   - A batch runs on a thread of its own, which restricts itself by Landlock if the kernel has it: even if the code is wrong,
//     it can read and change only what lies below the quarantine and, if it moves something, the pods directory. Landlock also
//     allows changes on what is mounted below them, so it does not replace the steps above.
//   - Every 32 removals the open directories must still be in their parents: a tree that was moved out of quarantine is no
//     longer ours.
//   - unlinkat and rename never remove a mount point of this mount namespace or of a slave of it (EBUSY). They
//     detach a mount that only another namespace has (measured, Linux 6.18), so the caller scans all namespaces first.
//
// # Killed, or without power
//
// After kill -9 before any system call Where returns where the directory of an open intent is, and syncs both directories before
// that. A restore, exchange, clean or purge can also be carried out again, and then ends as if it had run once; its comment has
// the steps. What Execute returns is synced, by Execute itself: both directories of a rename, the target before the
// source, since a disk may persist them independently; the quarantine's parent when the quarantine is made, before the first
// rename; a directory that is kept after something was removed from it; and the quarantine after an entry is gone. The
// directories of a tree that is removed whole are not synced: without its name nothing in it comes back. A sync that fails
// makes the outcomes Failed. The ledger is the caller's: the intent before Execute, the result after it. The content of a
// vol_data.json is in the outcome only, and lost if the process is killed before it is recorded.
//
// A manifest beside each entry describes it for an operator without the ledger. No code reads it, and it is not synced.
//
// # Hanging
//
// A file system that is mounted below cannot block a batch: openat2 with NO_XDEV and statx with AT_STATX_DONT_SYNC send it no
// request. The pods directory's own disk can. Execute then waits, since a call that returns late still changes the disk, and
// Stuck reports the path, for operators and the watchdog.
//
// # Unmounting
//
// Mounts are found by file system and directory in this process's mountinfo, and unmounted one at a time, the innermost
// first, by umount2 of one name in the directory of the mount point, which is held open. MNT_DETACH is never used: what a
// process uses, here or as a copy in another namespace, is busy and kept. MNT_FORCE is never used: no write is lost. Between
// the last check and the call another process may mount something over the mount, and the call detaches that: a mount that is
// new and unused. A handle cannot prevent this, since it would make the mount busy. Only who may mount in the node's
// namespace can do it.
package quarantine
