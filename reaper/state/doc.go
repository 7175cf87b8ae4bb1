// Package state stores what must outlive the process: the ledger of every intent and outcome, small values such
// as holds and checkpoints, and the archives of removed files (package cni/remove), all in one directory that root
// owns. The package also has the clock.
//
// It does not depend on Kubernetes, does not judge, and touches nothing outside its directory.
//
// Why it is safe:
//
//   - A batch of records is one write(2) and one fdatasync(2), so an intent is on disk before the first change of the
//     batch. After a crash the next open moves the unfinished end of the ledger to a file beside it.
//   - Each line ends with a checksum. Any other damaged line stops the program with the file's name and the line, so
//     that nothing is judged from incomplete records.
//   - Every other file is replaced as a whole: a new file is written, synced and renamed, and the directory synced. A
//     damaged value is moved aside and counts as absent, which only makes the daemon wait longer.
//   - An archive is on disk before CreateArchive returns; only then may the archived files be removed.
//   - A file of 2 MiB is reserved for a full disk. Each batch of intents may release one slice of it.
//   - Several processes may append. A flock(2) lock around each append makes numbers unique, and each process reads the
//     records of the others first. The kernel releases the lock when its process ends.
//   - A ledger with a record of an unknown kind is refused before any change.
//
// A program may ignore a field that it does not have, and treats a new class of content as data. A change that it
// would misread needs a new kind of record, or a value of another name.
package state
