// Package reaper is the loop that removes the directories of dead pods. A Reaper runs one pass in these steps:
//
//	enter     lock the ledger, check the quarantine, and recover what a crash cut short
//	look      Prober.Look reads the node
//	decide    decide.Decide applies every rule; this package has none
//	carryOut  write intents, change the disk, write outcomes
//	remember  save what the next pass starts from
//	publish   write records and metrics
//
// A Daemon runs a pass when a log line, the clock or an operator asks for one. Sweep runs passes until time alone changes
// nothing. At the end of a pass a Neighbour, a product beside the core, takes its turn: the sweep over stale CNI files.
//
// The package itself opens and changes no file: it reads and changes the node through the interfaces in deps.go. Their
// implementations do not import each other.
package reaper
