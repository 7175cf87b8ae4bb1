// Package fleet serves the status of one node over HTTP, and asks many nodes for theirs.
package fleet
