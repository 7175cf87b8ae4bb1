// Package remove removes the files that CNI leaves, and writes them back. They are removed where
// they are, since the directories may be on any file system, so they have no quarantine: the
// caller has archived and synced them, and hands them in with their content. It decides nothing,
// and touches no pod directory.
//
// Why it is safe, beside what package removal says of handles, names and Landlock:
//
//   - A file goes only while device, inode, size, change time and content are those of the
//     archive, from a directory at or below one that is configured. A mount on the way to it
//     is right there, a symbolic link below the configured directory is not.
//   - A cache file has no lock, so it is moved aside within its directory before the last
//     check. What a program writes anew meanwhile is found by that check and moved back, or
//     gets the name for itself. What remains is a program that opened the old file before it
//     was moved, without truncating it, and writes after the last check; no CNI library does.
//   - An address goes under the lock that host-local itself takes, in the way of old and of
//     new versions; it is read again under it. The lock file is made where it is missing, as the
//     plugin does, and never unlinked; its directory is never made. A lock that is not to be
//     had within seconds is told with its holder, and stays the holder's.
//   - What is written back is written under another name and synced, and only then gets its own,
//     by a rename that replaces nothing.
package remove
