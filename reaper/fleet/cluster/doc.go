// Package cluster is the operator's side of the fleet. [Daemons] reads the daemons' addresses from the EndpointSlices
// of a Service, from the API server. A [Client] asks the daemons of many nodes at once for their reports, or for a look.
//
// It limits everything that it reads. Lists are read in pages, one item at a time. Each node gets requests with their
// own deadline, so that a node that hangs delays no other. A node that does not answer is reported by name, never
// omitted. A node's report or answer is untrusted: it is limited by report.Bound, and anything else is an error of that
// node.
//
// It follows no redirect, keeps nothing on disk and decides nothing. It requests from a daemon only what reaper/fleet serves.
package cluster
