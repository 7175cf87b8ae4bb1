// Package audit writes records for operators: to the journal, to a stream where there is no
// journal, and as metrics for the node exporter's textfile collector.
//
// It decides nothing, and no decision uses its results: the ledger has the records, and this
// package shows them. It writes to the journal's socket, to the stream that it was given and to the
// metrics file, nowhere else.
//
// Names of pods and paths come from the node and may have any content. The text of a record is
// one line without control characters; each value also has a field of its own,
// whose length the native protocol carries where the value has a newline, so that no
// value can end its field or begin another.
package audit
