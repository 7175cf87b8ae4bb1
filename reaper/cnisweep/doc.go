// Package cnisweep is the second loop: it sweeps over the files that CNI left of dead pods.
//
// The same one way leads through it as through a pass over the pods: look, judge, write down,
// change, write down. A look is a chunk of the files, so that 300,000 of them need no more
// memory than a few thousand; and what is removed is archived first, since nothing can be moved
// aside where the directories are on another file system, or on tmpfs.
//
// It judges by policy/cni alone and touches no disk. Its caller holds the ledger's lock, and
// shows people what it has written to the ledger: reaper.Pass calls Sweep, a person's command
// Restore, RestoreBatch or Drop.
package cnisweep
