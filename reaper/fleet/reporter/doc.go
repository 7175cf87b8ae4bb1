// Package reporter writes a node's report into the cluster, as the OrphanReport that has the node's
// name, and two kinds of events about the node: the breaker has opened, and pods wait for an operator.
//
// # What it must not do
//
// It reads nothing back, lists nothing and watches nothing: its account may create and patch
// reports, and create events. No look waits for it (Writer.Publish only hands over), and nothing that
// the API server answers, late or not at all, changes what the daemon does on the node.
//
// # When it writes
//
// Soon after something has changed, less often while things keep changing, and about once an hour
// otherwise. Only the newest report is kept; there is no queue. After a failure it waits, each time
// longer. All waits have a random part, so that many nodes do not write at the same moment. While
// there is nothing to write, no timer runs and no connection is open.
package reporter
