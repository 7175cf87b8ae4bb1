// Package cluster asks the API server which nodes have a daemon: by the EndpointSlices of a
// Service.
//
// What it reads is bounded, in pages and one item at a time, however much there is. It asks no
// daemon and decides nothing.
package cluster
