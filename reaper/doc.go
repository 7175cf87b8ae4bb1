// Package reaper is the loop: it orders what happens and when, and touches no disk.
//
// It reaps directories of dead pods, not child processes. Lines come in and ask for a pass:
//
//	enter     the lock, the same quarantine as before, and what a crash cut short
//	look      Prober.Look, by what the ledger has in work
//	decide    decide.Decide: every rule is there, and none is here
//	carryOut  ledger, disk, ledger, with a scan of the mounts before and after
//	remember  what the next pass starts from
//	publish   records and metrics
//
// Daemon returns when to take one, Sweep takes them until nothing is left that time could change.
// A product beside the core, a Neighbour, takes its turn at the end of a pass: the sweep over what CNI left.
//
// Everything that reads or changes the node stands behind a small interface of this
// package; the rooms that implement them know nothing of each other.
package reaper
