// Package app opens the rooms that a command needs, runs the command on them, and closes them.
//
// It is the only package that imports probe, removal, source and state together. It holds no rules
// and prints nothing except the log.
package app
