// Package reaper is the loop: it orders what happens and when, and touches no disk.
//
// It reaps directories of dead pods, not child processes. Lines come in, looks go out,
// verdicts become plans, plans are written to the ledger and only then carried out:
//
//	Line -> Sighting -> pending -> Look -> Verdict -> Plan -> Outcome -> Record
//
// Everything that reads or changes the node stands behind a small interface of this
// package; the rooms that implement them know nothing of each other.
package reaper
