// Package ui shows results to an operator: as JSON, as text on a terminal of its width, or as lines in a
// pipe that a program can read. Each command has one struct; New… fills it from what policy, the loop or the
// ledger returned, JSON encodes it, and a method of Printer writes it as text. Reasons is the one table of what
// each reason means, what to do about it, and the commands for that.
//
// It opens nothing, reads no clock (the time is in the Context), and writes only to the given streams. Users rely on the JSON
// keys (docs/json.md).
package ui
