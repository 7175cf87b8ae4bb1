// Package fanout asks the daemons of many nodes at once: for their reports, and for a look.
//
// Each node gets one request, with a deadline of its own, so that a node that hangs costs the
// others nothing but one of the places in which requests run. A node that does not answer is
// told by its name and never left out. What a node answers is text from a stranger: it is cut to
// what a report has (report.Bound), and one that no daemon gives is an error of that node.
//
// It follows no redirect, uses no proxy and keeps nothing on disk. It asks for nothing but what
// reaper/fleet answers.
package fanout
