// Package state stores what must outlive the process: the ledger of every intent and outcome, small values such
// as holds and checkpoints, and the archives of removed files (package cni/remove). All of it is in one
// directory of root's. The package also has the clock.
//
// It does not depend on Kubernetes, does not judge, and touches nothing outside its directory.
//
// Why it is safe:
//
//   - A batch of records is one write(2) and one fdatasync(2), so an intent is on disk
//     before the first change of the batch. The unfinished rest of a crashed write was never
//     acknowledged; the next open cuts it off and keeps it beside the ledger.
//   - Each line ends with a checksum. A line that is damaged anywhere else stops the program
//     with the file's name and the line: no valid record is cut off, and nothing is judged
//     from incomplete records.
//   - Every other file is replaced as a whole: written beside, synced, renamed, and the
//     directory synced. A value that is damaged all the same is moved aside and counts as
//     absent, which only makes the daemon wait longer.
//   - An archive and its name are on disk before CreateArchive returns; only then may the
//     archived files be removed.
//   - A file of 2 MiB is reserved for a full disk, and released slice by slice, one for each
//     batch of intents, so that the pods that filled the disk can be removed.
//   - Several processes may append (the daemon, quarantine restore). A short lock around
//     each append makes numbers unique and has each process read the others' records first.
//     The locks are flock(2) locks: the kernel drops them with their process.
//   - A directory written by a newer version is refused before anything is changed, and so
//     is a ledger with a record of an unknown kind.
//
// Increase Version for anything that an older program would misread. A field that it may ignore, and a new
// class of content, which it treats as data, need no new version. testdata/v1 is a directory as version 1 wrote
// it; it never changes.
package state
