// Package remove archives the files that CNI leaves, removes them, and writes them back. They are removed where
// they are, since the directories may be on any file system, so there is no quarantine: the
// caller archives them first and passes them with their content. It decides nothing,
// and touches no pod directory.
//
// Why it is safe, beside what package removal documents of handles, names and Landlock:
//
//   - A file is removed only while device, inode, size, change time and content are those of the
//     archive, from a directory at or below one that is configured. A mount on the way to it
//     is allowed there, a symbolic link below the configured directory is not.
//   - A cache file has no lock, so it is moved aside within its directory before the last
//     check. What a program writes anew meanwhile is found by that check and moved back, or
//     gets the name for itself. What remains is a program that opened the old file before it
//     was moved, without truncating it, and writes after the last check; no CNI library does.
//   - An address is removed under the lock that host-local itself takes, in the way of old and of
//     new versions; it is read again under it. The lock file is made where it is missing, as the
//     plugin does, and never unlinked; its directory is never made. A lock that another process
//     holds for seconds is reported, and its files are kept.
//   - What is written back is written under another name and synced, and only then gets its own,
//     by a rename that replaces nothing.
//
// An archive is a compressed tar file in the state directory ([ArchiveStore]). Package state decides
// where it lies and that it is on disk before a file is removed. The whole archive is compared with its checksum
// before anything of it is returned, so a damaged one restores nothing.
package remove
