// Package transport takes a line of a log apart, outside in, down to the klog call that it
// carries: syslog's forms, journalctl's and the container runtimes', the JSON of loggers and
// shippers, k0s's log, and klog's own header or object. Each is recognised from the line's first
// byte on and has one place for the program's words; a line that starts like none of them is no
// kubelet's, and whatever the transport says of the program or the unit must say kubelet.
//
// What a call means is for package parsers, which alone uses this. As that, it opens nothing,
// reads no clock and makes no system call.
package transport
