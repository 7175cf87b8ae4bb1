// Package ledger is the durable record of every intent and every result, in one directory that root owns. An intent is synced
// before the change and its result after it. The circuit breaker is one of its events, so it survives restarts.
//
// It decides nothing, knows nothing about Kubernetes and touches nothing outside its directory. judge.Folded says what the
// events add up to.
//
// Why it is safe:
//   - A batch of events is one write(2) and one fdatasync(2), so an intent is on disk before the change that it announces.
//     After a crash the next open moves the unfinished end of the file aside.
//   - Each line ends with a checksum. Any other damaged line stops the program with the file's name and the line, so that
//     nothing is judged from incomplete events.
//   - A ledger with an event of an unknown kind is refused before any change.
//   - Compaction drops only what the journal has, what no entry of the quarantine needs, and what is not among the last
//     10,000. It writes a new file, syncs it, renames it, and syncs the directory.
//   - A file of 2 MiB is reserved for a full disk. Each batch of intents may release one slice of it.
//   - Several processes may append. A flock(2) around each append makes numbers unique, and each process reads the events
//     of the others first. The kernel releases a lock when its process ends.
//
// The package has the program's clock, too: judge.Instant.
package ledger
