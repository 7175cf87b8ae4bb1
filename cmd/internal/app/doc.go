// Package app opens what a command needs of the node and its state, runs the command, and closes it again.
//
// It is the only package that imports probe, removal, source and state together. It holds no rules
// and prints nothing except the log.
package app
