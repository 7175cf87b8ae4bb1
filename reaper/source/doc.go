// Package source follows the logs to which a kubelet writes: journald, and files.
//
// A Source sends lines. It does not parse or judge them, but leaves out lines that cannot be a sighting (parsers.Blocks).
// The package starts one program: journalctl, which costs about the same as reading the journal through libsystemd and
// needs no cgo.
//
// The channel is unbuffered, and Position is never ahead of the lines that were received: a caller that has processed
// these and then stores the Position loses none in a crash. Run returns when its context ends, or for an error that no
// retry can fix (see classify).
//
// The Journal starts one journalctl that searches to the end and then one that follows. It replaces the latter every ten
// minutes, since journalctl 252 never sees a /var/log/journal that is made after its start. The search names only the
// units that have an entry (see present). The follower names all units, and begins earlier than the search ended.
//
// A File is followed by its inode:
//
//   - If it is renamed, it stays open until the next file with the name has content, which is then read from its
//     beginning. So a writer may be slow to reopen.
//   - If it is deleted, it is read to its end and closed, since an open file keeps its space.
//   - If it is truncated, it is read from its beginning. The size shows this, or the first 1,024 bytes, which are compared
//     after each block is read and before it is used.
//
// A Position has one place for each log, in the file that is open. Lines in a file that was renamed while the daemon did
// not run, in a copy that copytruncate made, or in a file that existed only between two wake-ups are not read: the kubelet
// repeats its message every two seconds, and an error of a volume every two minutes.
//
// inotify(7) wakes a File, with a timer of one minute as a fallback. nxadm/tail is used only by parse: its reader has no
// bound on memory, and its watcher ends the process if a path cannot be read any more (log.Fatalf in its inotify.go).
package source
