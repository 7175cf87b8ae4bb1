// Package cluster is the operator's side of the fleet. It asks the API server for the daemons' addresses ([Daemons], by the
// EndpointSlices of a Service) and for what all nodes have reported ([Reports], by OrphanReports and Nodes); and a [Client] asks
// the daemons of many nodes at once for their reports, or for a look.
//
// All that it reads is bounded: lists are read in pages, one item at a time; each node gets one request with its own deadline, so
// that a node that hangs delays no other. A node that does not answer is reported by its name, never left out. What a
// node writes or answers is untrusted: it is cut to the bounds of a report (report.Bound), and anything else is an error of that node.
//
// It follows no redirect, keeps nothing on disk and decides nothing. It requests from a daemon only what reaper/fleet serves.
package cluster
