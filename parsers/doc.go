// Package parsers turns text into values: kubelet log lines in every transport into sightings, and strings into
// pod UIDs.
//
// It opens no file, reads no clock, makes no system call and imports no other package of this module, so that it can be
// fuzzed. A line is a hint and never proof (docs/how-it-decides.md). This package only ensures that the text is the
// kubelet's own, and not text that the kubelet or another program quotes.
//
// A grammar parses each line from its first byte to its last. The transport (unwrap.go: syslog, journalctl, container
// runtimes, JSON, k0s's log) has the name of the program and one place where its text starts. klog's header or JSON
// object has the kubelet's source file, and the message (message.go, teardown.go) is compared from its beginning with
// the format strings of that file. The parser does not search, so it finds no report in a probe's output, in a volume's
// name or in another program's log. It rejects a line with contradictory UIDs.
//
// It cannot detect two forgeries: the text of `logger -t kubelet` in a syslog file, and a line that the name of a
// directory with a newline adds to a message of an old kubelet (1.20 and older; newer ones quote the name), or the path of
// a volume to an error. A source knows lines before it that may be such messages (Follows), and then Line.Whole is false.
// Nor can it detect whose container log it reads: what a pod writes to stderr looks there (CRI, Docker's json-file) like
// the lines of a kubelet in a container. MESSAGE= of journalctl -o verbose or export has no sender beside it. Therefore
// only journald's trusted fields make a sighting Trusted.
//
// Parser parses single lines. Blocks finds the few lines of a log that a Parser must see, and Scan parses a whole log.
package parsers
