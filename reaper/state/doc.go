// Package state stores what must outlive the process: the ledger of every intent and outcome, small values such
// as holds and checkpoints, and the archives of removed files (package cni/remove). All of it is in one
// directory of root's. The package also has the clock.
//
// It does not depend on Kubernetes, does not judge, and touches nothing outside its directory.
//
// Why it is safe:
//
//   - A batch of records is one write(2) and one fdatasync(2), so an intent is on disk before the first change of the batch.
//     The next open cuts off the unfinished rest of a crashed write and keeps it beside the ledger.
//   - Each line ends with a checksum. A line that is damaged anywhere else stops the program with the file's name and the
//     line: nothing is judged from incomplete records.
//   - Every other file is replaced as a whole: written beside, synced, renamed, and the directory synced. A damaged value is
//     moved aside and counts as absent, which only makes the daemon wait longer.
//   - An archive is on disk before CreateArchive returns; only then may the archived files be removed.
//   - A file of 2 MiB is reserved for a full disk, and released slice by slice, one for each batch of intents.
//   - Several processes may append. A flock(2) lock around each append makes numbers unique and has each process read the
//     others' records first. The kernel drops it with its process.
//   - A directory of a newer version, or a ledger with a record of an unknown kind, is refused before anything is changed.
//
// Increase Version for anything that an older program would misread. A field that it may ignore, and a new
// class of content, which it treats as data, need no new version. testdata/v1 is a directory as version 1 wrote
// it; it never changes.
package state
