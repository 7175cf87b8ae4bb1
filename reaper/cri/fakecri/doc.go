// Package fakecri is a container runtime that runs nothing: a CRI server on a unix socket
// that lists the sandboxes and containers that a test sets, and fails in the ways that real
// runtimes fail (slow, hung, empty, dying, speaking an older version, speaking no CRI).
//
// It is for tests and for the demo. Nothing that ships may import it: the daemon must
// never be able to query a runtime of its own making.
package fakecri
