// Package reporter writes a node's report into the cluster, as the OrphanReport that has the node's
// name, and two kinds of events about the node: the breaker has opened, and pods wait for an operator.
//
// # What it must not do
//
// It reads, lists and watches nothing: its account may create and patch reports, and create events. No look waits for
// it, and no answer of the API server changes what the daemon does on the node.
//
// # When it writes
//
// It writes soon after a change, less often during many changes, and otherwise about once an hour. It keeps only the
// newest report; there is no queue. After a failure it waits, each time longer. All waits have a random part, so that
// many nodes do not write at the same moment. While there is nothing to write, no timer runs and no connection is
// open.
package reporter
