// Package parsers turns text into values: kubelet log lines in every transport
// into sightings, and strings into pod UIDs.
//
// It never opens a file, never reads the clock, makes no system call and imports
// nothing else of this module, so that it can be fuzzed. A
// line is a hint and never proof (docs/how-it-decides.md); this package only
// makes sure that the text is the kubelet's own, and not text that the kubelet,
// or another program, quotes.
//
// How: each line is read from its first byte to its last by a grammar, outside in. The
// transport (unwrap.go: the forms of syslog, journalctl and container runtimes, the JSON of loggers and
// shippers, k0s's log) has the program that wrote the line and the one place where its text
// starts; klog's header or JSON object has the source file of the kubelet; the
// message (message.go, teardown.go) is compared with that file's own format strings from
// its beginning. Nothing is ever searched for, so a report in
// a probe's output, in a volume's name or in another program's log stands where no
// rule looks. A UID that a second place in the same line contradicts is none.
//
// What it cannot distinguish: the text of `logger -t kubelet` in a syslog file from a
// kubelet's, and a line of its own that a directory's name with a newline makes of an
// old kubelet's message (1.20 and older; newer ones quote, or print a block whose
// lines start with a tab). Such lines name a pod all the same, and are why only
// journald's trusted fields make a sighting Trusted.
//
// Parser parses a line at a time. Blocks finds in the blocks of a log the few lines that are worth
// parsing, and Scan does both for a whole log.
package parsers
