// Package audit shows records to people: in the journal, on a stream where there is no
// journal, and as metrics for the node exporter's textfile collector.
//
// It must not decide anything, and its answers must not be part of a decision: the ledger
// is the truth, this is its picture. It writes to the journal's socket, to the stream that
// it was given and to the metrics file, nowhere else.
//
// Names of pods and paths come from the node and may hold anything. What people read is
// one line without control characters; what machines read stands in a field of its own,
// whose length the native protocol carries where the value holds a newline, so that no
// value can end its field or begin another.
package audit
