// Package transport takes a line of a log apart, outside in, down to the klog call in it. It knows
// the forms of syslog, journalctl and the container runtimes, the JSON of loggers and shippers,
// k0s's log, and klog's own header or object.
//
// Each form is recognised from the line's first byte on, and has one place for the program's text.
// A line that starts like none of them is no kubelet's. Where the transport names the program, it
// must be one under which kubelets log: by its name, or a shell through which a unit starts one, or
// OpenShift Origin's origin-node. Where it names the unit, that must be one that runs a kubelet,
// or one that the operator named, whose commands all are trusted. units.go has the lists.
//
// What a call means is for package parsers, which alone uses this one. Like parsers it opens
// nothing, reads no clock and makes no system call.
package transport
