// Package wire opens the rooms that a command needs, puts them together, and closes them. Each
// function is one call of a command: Survey looks, Sweep takes once, RunDaemon takes until it
// is stopped, and Restore, Purge and their kin do what a person said.
//
// It is the only place that knows probe, removal, source and state at once. It holds no rules
// and prints nothing but the log.
package wire
