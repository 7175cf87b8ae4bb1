// Package removal is the only code of orphan-reaper that changes anything but our own files, which are the
// state directory and the metrics. It moves pod directories, or the content of one of their volume directories,
// to quarantine and back. In quarantine it removes what a plan allows. It reaps directories, not child
// processes.
//
// It decides nothing: policy decides what may be removed, and the caller reads the mounts of all namespaces
// before each batch that removes, and after those that move. It never unmounts, never clears an attribute and
// never follows a link. It opens no other files than vol_data.json, whose content goes into the record, and
// userns and .DIGITS right below a pod directory, whose content shows whether the kubelet wrote them
// (contents.ByText). It removes nothing outside quarantine.
//
// Why it is safe:
//
//   - No joined path reaches the kernel. The kubelet's root and the quarantine's parent are
//     opened by the administrator's path; every step below them is one name by package
//     beneath, and every removal is unlinkat on the handle of a directory. The check for a
//     mount is part of the open, so there is no gap between check and use, and a mount that
//     appears later covers the name and not the handle.
//   - A directory is identified by device, inode and birth time. A directory that has replaced
//     it since the look is left alone. A moved one is checked again in quarantine and moved back
//     if it is another one. No rename replaces anything.
//   - Clear moves content out of a pod that remains name by name, from the handle of one
//     directory to that of another. If it stops half way it is undone at once, or, after a
//     kill, at the next start. The entry has a name of its own kind (policy.LeafSuffix): put
//     back as if it were a pod directory, it would be exchanged with one.
//   - unlinkat never removes a mount point of this mount namespace or of a slave of it
//     (EBUSY). The kernel does not report a mount in a foreign namespace, so the caller scans
//     all of them, and the daemon refuses to enforce from a private one.
//   - At the first mount, foreign file system, read-only or failing disk the pod is left.
//   - A batch runs on threads of its own, each of which has put itself under Landlock (package
//     confine), if the kernel has it: one thread moves, up to four remove, and each entry
//     belongs to one thread. The thread of Expect may only read. Whatever the code gets wrong,
//     it can change only files below the pods directory and the quarantine that the batch has
//     opened, read nothing else, and execute nothing. Landlock counts a mount below them as
//     below them, so it does not replace the steps above. Making the quarantine and opening the
//     configured directories come before it. Other threads read the node and write the ledger,
//     the records and the log.
//   - Every 32 removals the open directories must still be where they were: a tree that is
//     moved out of quarantine is no longer ours.
//   - Each action can be run again after kill -9 at any system call and then leads to the
//     same end. The order of steps that makes this true is documented at each of them.
//
// The system calls that unlink and rename are in package reaper/internal/change, and nowhere else.
//
// What can block: any call on a file system that does not answer. Park, Clear and PutBack touch
// the file system of the pods directory only, Strip and Purge likewise, since openat2 with
// NO_XDEV and statx with AT_STATX_DONT_SYNC do not ask a file system that is mounted below.
// If that file system itself hangs, Execute returns some time after its context ends and
// gives the batch's thread up; see Execute.
package removal
