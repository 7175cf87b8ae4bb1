// Package exit has the exit codes of the command line's contract and the errors that carry
// them, each with a hint on what to do.
//
// It prints nothing and ends no process: main does.
package exit
