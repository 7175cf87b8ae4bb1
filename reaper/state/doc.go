// Package state keeps what must outlive the process: the ledger of every intent and
// outcome, small values such as holds and checkpoints, the archives of what is removed for good (package cni/archive),
// and the clock that all are told by. All of it lies in one directory of root's.
//
// It must not know Kubernetes, judge, or touch anything outside its directory.
//
// Why it is safe:
//
//   - A batch of records is one write(2) and one fdatasync(2), so an intent is on disk
//     before the first change of the batch. What a crash leaves of an unfinished write is
//     cut off at the next open and kept beside the ledger; it was acknowledged to nobody.
//   - Each line ends with a checksum. A line that is damaged anywhere else stops the program
//     with the file's name and the line: nothing is cut off that may be valid, and nothing
//     is judged from half a story.
//   - Every other file is replaced as a whole: written beside, synced, renamed, and the
//     directory synced. A value that is damaged all the same is moved aside and counts as
//     absent, which only ever makes the daemon wait longer.
//   - An archive is on disk, its name too, before CreateArchive returns: only then may the files
//     that it holds be removed.
//   - A file of 2 MiB is kept for the day when the disk is full, and given up slice by slice, one for each
//     batch of intents. So an intent can be written, and what filled the disk can go.
//   - Several processes may append (the daemon, quarantine restore). A short lock around
//     each append makes numbers unique and has each process read first what the others
//     wrote. The locks are flock(2) locks: the kernel drops them with their process.
//   - A directory written by a newer version is refused before anything is changed, and so
//     is a ledger with a record of a kind that is not known.
//
// What needs a higher Version: whatever an older program would misread. A field that it may
// leave out, and a new class of content, which it takes for data, need none. testdata/v1 is
// a directory of version 1 as it was written; it is never written anew.
package state
