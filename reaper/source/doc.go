// Package source follows the logs to which a kubelet writes: journald, and files.
//
// A source sends lines and nothing else. It does not parse or judge them, and reads nothing else of
// the node; it only leaves out lines that cannot be a sighting (parsers.Blocks), since a busy node
// writes a hundred thousand others a second. It is the only room that starts a process:
// journalctl, which costs about the same as reading the journal through libsystemd and needs no cgo.
//
// # What a source guarantees
//
// A line is sent on an unbuffered channel, so that a send that is done is a line that is received.
// Position is never ahead of that: a caller that stores a Position after having dealt with what it
// received loses nothing by a crash. A slow receiver slows the source down; nothing is dropped for
// it, and nothing is kept in memory but one block and one line. Run returns when its context ends,
// or for an error that no retry can mend (see classify).
//
// # How the journal is followed
//
// By one journalctl that searches to the end and one that follows, which is renewed every ten
// minutes: journalctl 252 follows the directories that exist when it starts, and
// never sees a /var/log/journal that is made later. The first search names only
// the units that have an entry (see present). A unit that begins to write meanwhile is not lost:
// the follower names all units, and begins before that.
//
// # How a file is followed
//
// The file that is open is followed by its inode, whatever becomes of its name:
//
//   - Renamed: the file stays open and is read on until the file that has the name now has content, which is then
//     read from its beginning. A writer that is slow to reopen loses nothing.
//   - Deleted: it is read to its end and closed, since an open file keeps its space.
//   - Truncated: detected by the size, or, when the file has grown again, by the first 1,024
//     bytes, which are compared after each block is read and before it is used. Then it
//     is read from its new beginning.
//
// One place is saved for each log: that in the file that is open. Lines that are only in a file
// that was renamed while the daemon did not run, in a copy that copytruncate made, or in a file
// that existed only between two wake-ups are not read: the kubelet repeats its message every two
// seconds, and an error of a volume every two minutes.
//
// Wake-ups come by inotify(7) from the inode and from the directories that hold the name (and, for a
// symlink, its target's), with a timer of one minute as a fallback. nxadm/tail is used by parse only:
// its reader has no bound on memory, and its watcher ends the process in situations that no check
// beforehand can prevent (TestTailWatchEndsTheProcess).
package source
