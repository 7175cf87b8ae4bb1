// Package cluster asks the API server where the daemons are, by the EndpointSlices of a Service, and
// what the nodes have reported, and which have not: by OrphanReports and Nodes.
//
// What it reads is bounded, in pages and one item at a time, however much there is. What a
// node wrote is a stranger's: it is cut to what a report has. The room asks no daemon and decides nothing.
package cluster
