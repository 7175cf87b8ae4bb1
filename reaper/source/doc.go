// Package source follows the logs to which a kubelet writes: journald, and files.
//
// A source sends lines and nothing else. It does not parse or judge them; it only leaves out lines that cannot be a
// sighting (parsers.Blocks). It is the only room that starts a process: journalctl, which costs about the same as reading
// the journal through libsystemd and needs no cgo.
//
// A line is sent on an unbuffered channel, and Position is never ahead of what was received: a caller that stores a
// Position after having dealt with that loses nothing by a crash. A slow receiver slows the source down. Run returns when
// its context ends, or for an error that no retry can fix (see classify).
//
// The journal is followed by one journalctl that searches to the end and one that follows, which is renewed every ten
// minutes: journalctl 252 never sees a /var/log/journal that is made after its start. The first search names only the
// units that have an entry (see present). The follower names all units, and begins before that.
//
// A file is followed by its inode, whatever becomes of its name:
//
//   - Renamed: the file stays open and is read on until the file that has the name now has content, which is then
//     read from its beginning. A writer that is slow to reopen loses nothing.
//   - Deleted: it is read to its end and closed, since an open file keeps its space.
//   - Truncated: detected by the size, or by the first 1,024 bytes, which are compared after each block is read and before
//     it is used. Then it is read from its new beginning.
//
// One place is saved for each log: that in the file that is open. Lines that are only in a file that
// was renamed while the daemon did not run, in a copy that copytruncate made, or in a file that existed only between two
// wake-ups are not read: the kubelet repeats its message every two seconds, and an error of a volume every two minutes.
//
// Wake-ups come by inotify(7), with a timer of one minute as a fallback. nxadm/tail is used by parse only: its reader has no
// bound on memory, and its watcher ends the process where a path can no longer be read (log.Fatalf in its inotify.go).
package source
