// Package fakecri is a CRI server on a unix socket for tests and testdata/node. It runs nothing: it lists the sandboxes and
// containers that a test sets, and fails as real runtimes fail (slow, hung, empty, dying, an older version, no CRI).
//
// The shipped program must not import it.
package fakecri
