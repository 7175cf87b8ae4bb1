// Package state keeps what must outlive the process: the ledger of every intent and
// outcome, small values such as holds and checkpoints, and the archives of files that are removed
// (package cni/archive). All of it is in one directory of root's. The package also has the clock.
//
// It does not depend on Kubernetes, does not judge, and touches nothing outside its directory.
//
// Why it is safe:
//
//   - A batch of records is one write(2) and one fdatasync(2), so an intent is on disk
//     before the first change of the batch. The rest of a write that a crash cut short is
//     removed at the next open and kept beside the ledger; it was never acknowledged.
//   - Each line ends with a checksum. A line that is damaged anywhere else stops the program
//     with the file's name and the line: nothing is cut off that may be valid, and nothing
//     is judged from incomplete records.
//   - Every other file is replaced as a whole: written beside, synced, renamed, and the
//     directory synced. A value that is damaged all the same is moved aside and counts as
//     absent, which only ever makes the daemon wait longer.
//   - An archive is on disk, its name too, before CreateArchive returns: only then may the files
//     that it holds be removed.
//   - A file of 2 MiB is reserved for a full disk, and given up slice by slice, one for each
//     batch of intents. So an intent can be written, and the pods that filled the disk can be removed.
//   - Several processes may append (the daemon, quarantine restore). A short lock around
//     each append makes numbers unique and has each process read first what the others
//     wrote. The locks are flock(2) locks: the kernel drops them with their process.
//   - A directory written by a newer version is refused before anything is changed, and so
//     is a ledger with a record of an unknown kind.
//
// A higher Version is needed for anything that an older program would misread. A field that it may
// leave out, and a new class of content, which it treats as data, need none. testdata/v1 is
// a directory of version 1 as it was written; it never changes.
package state
