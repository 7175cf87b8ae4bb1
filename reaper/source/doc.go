// Package source follows the logs in which a kubelet speaks: journald, and files.
//
// A source hands over lines and nothing else. It does not parse, judge, or look at the
// node; it only leaves out lines that cannot be a sighting (parsers.Index), because a
// busy node writes a hundred thousand others a second. It is the only room that starts
// a process: journalctl, which costs about the same as reading the journal through
// libsystemd and needs no cgo.
//
// # What a source promises
//
// A line is handed over on an unbuffered channel, so that a send that is done is a line
// that is received. Position never runs ahead of that: whoever stores a Position after
// having dealt with what was received loses nothing by a crash. A slow receiver slows the source down; nothing is
// dropped for it, and nothing is kept in memory but one block and one line. Run comes back
// only when its context ends, or for an error that no retry can mend (see classify).
//
// # How the journal is followed
//
// By one journalctl that reads to the end and one that follows, which is renewed every ten
// minutes: journalctl 252 follows the directories that were there when it started, and
// never sees a /var/log/journal that is made later. The first that reads to the end names only
// the units that have an entry (see present). A unit that begins to write meanwhile is not lost:
// the one that follows names all units, and begins before the question.
//
// # Why not nxadm/tail
//
// Its reader waits for a newline without any bound on memory, and loses lines when a
// writer keeps the old file open after a rename, when a truncated file has grown past
// the old offset, and when a file is deleted and made again; it is also more than ten
// times slower than a search over blocks (39 MB/s against 1,054; BenchmarkCatchUp prints both). That leaves
// its watch package for wake-ups, and that one ends the process: in v1.4.11
// InotifyFileWatcher.ChangeEvents calls os.Exit when a stat of the path fails with
// anything but ENOENT, which a directory that becomes a file (ENOTDIR), a symlink
// loop or an I/O error do at any moment, and InotifyTracker.run calls it when the user's inotify instances
// are used up. A check beforehand cannot close either window, and an exit in the middle
// of a removal is what nobody wants. TestTailWatchEndsTheProcess shows it. So the
// wake-ups come from inotify(7) directly; with no instance or watch left it polls.
//
// # How a file is followed
//
// The file that is open is followed by its inode, whatever becomes of its name:
//
//   - Renamed or deleted: the old file stays open and is read on, until it has been
//     quiet for two minutes, while the file that now has the name is read from its
//     beginning. A writer that is slow to reopen loses nothing.
//   - Truncated: seen by the size, or, when the file has grown again, by the first 1,024
//     bytes, which are compared after each block is read and before it is used. Then it
//     is read from its new beginning.
//
// One place is saved for each log: that in the file that has the name. What stands only in a file
// that was renamed while the daemon did not run, in a copy that copytruncate made, or in a file
// that came and went between two looks is not read: the kubelet repeats its message every two
// seconds, and an error of a volume every two minutes.
//
// Wake-ups come from the inode and from the directories that hold the name (and, for a
// symlink, its target's). A timer of one minute is the net below that.
package source
