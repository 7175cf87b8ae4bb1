// Package audit writes records for operators: to the journal, to a stream if there is no journal, and as metrics for
// the node exporter's textfile collector.
//
// It decides nothing, and no decision uses its results: the ledger keeps the records, and this package shows them. It
// writes only to the journal's socket, the given stream and the metrics file.
//
// Names of pods and paths come from the node and may have any content. The text of a record is one line without control
// characters. Each value also has its own field; the native protocol sends the length of a value with a newline, so
// that no value can end its field or begin another.
package audit
