// Package remove archives the files that CNI plugins leave, removes them, and restores them. The directories
// may be on any file system, so there is no quarantine: files are removed in place, and the caller archives
// them first and passes them with their content. The package decides nothing and touches no pod directory.
//
// Why it is safe, besides the reasons of package removal for handles, names and Landlock:
//
//   - A file is removed only while device, inode, size, change time and content are those of the
//     archive, from a directory at or below a configured one. A mount on the way to it is
//     allowed, a symbolic link below the configured directory is not.
//   - A cache file has no lock, so it is moved aside within its directory before the last check.
//     That check finds a file that a program has written meanwhile, and moves it back. The
//     remaining gap is a program that opened the old file before the move, without truncating it,
//     and writes after the last check; no CNI library does that.
//   - An address is read again and removed under the lock of host-local itself, as old and new
//     versions lock it. A missing lock file is created, as the plugin does, and never unlinked;
//     its directory is never created. If another process holds the lock for seconds, that is
//     reported and the files are kept.
//   - A restored file is written under another name and synced, and only then gets its own name,
//     by a rename that replaces nothing.
//
// An archive is a compressed tar file in the state directory ([ArchiveStore]). Package state chooses its place
// and ensures that it is on disk before a file is removed. The whole archive is compared with its checksum
// before any of it is returned, so a damaged one restores nothing.
package remove
