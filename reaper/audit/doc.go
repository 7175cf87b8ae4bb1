// Package audit writes what the program did to the journal, and keeps its metrics.
//
// It decides nothing, and no decision uses it: the ledger has every event, and this package shows them. It writes to the
// journal's socket, to the given logger and to the metrics file. None of these can block a pass for longer than five
// seconds: journald and the metrics file's file system may hang.
//
// Names of pods, paths and messages come from the node and may have any content. The text of a record is one line of
// printable characters. journald's native protocol sends the length of a value that has a newline, so no value can end
// its field or begin another one.
package audit
