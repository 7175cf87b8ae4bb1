// Package parsers turns text into values: kubelet log lines in every transport into sightings, and strings into
// pod UIDs.
//
// It never opens a file, never reads the clock, makes no system call and imports nothing else of this module,
// so that it can be fuzzed. A line is a hint and never proof (docs/how-it-decides.md); this package only makes
// sure that the text is the kubelet's own, and not text that the kubelet or another program quotes.
//
// A grammar parses each line from its first byte to its last, outside in. The transport (unwrap.go: syslog, journalctl,
// container runtimes, JSON, k0s's log) has the name of the program and the one place where its text starts. klog's header
// or JSON object has the source file of the kubelet, and the message (message.go, teardown.go) is compared from its
// beginning with that file's format strings. Nothing is searched for, so no rule matches a report in a probe's output, in
// a volume's name or in another program's log. A UID that another place in the line contradicts is rejected.
//
// Two forgeries cannot be detected: the text of `logger -t kubelet` in a syslog file, and a line that a
// directory's name with a newline adds to a message of an old kubelet (1.20 and older; newer ones quote it).
// Therefore only journald's trusted fields make a sighting Trusted.
//
// Parser parses each line by itself. Blocks finds the few lines of a log that are worth parsing, and Scan does
// both for a whole log.
package parsers
