// Package view has what the commands show, each as a plain struct that is written as JSON or,
// by a Printer, as text for a person. New… makes a view from what policy, the loop or the
// ledger returned; a method of the Printer writes it.
//
// It opens nothing, asks nobody and reads no clock: the time comes with the Context. It writes
// only to the stream that it was given. Names and keys are the command line's contract
// (docs/json.md).
package view
