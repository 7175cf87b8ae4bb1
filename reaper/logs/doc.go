// Package logs delivers the lines of the kubelet's log, each with where it came from and whether it is whole.
//
//	journald   a journalctl child: --follow from ten seconds ago, which is enough since the kubelet repeats itself
//	a file     nxadm/tail by name, from its end: it opens the file again after a rotation and after a truncation
//
// A command without a past reads the last five minutes of the journal, or the last 4 MiB of a file, and then listens.
//
// The package judges nothing: parsers.Stream sets Line.Whole and Line.Mixed, parsers.Parse reads a line, and judge.Credible
// decides what it is worth. Nothing is remembered over a restart.
//
// nxadm/tail has two habits that matter. It ends the process if stat(2) of the file fails with another error than "does not
// exist" (util.Fatal of its watchers), and it bounds no line. systemd's Restart= and MemoryMax= make both harmless: the daemon
// may be killed at any instruction. A line has the identity of the file to which the name leads, and counts only if that is the
// kubelet's fd 1 or 2. Each scan finds the name that this file has now, and the command follows that one.
package logs
