// Package policy and those below it hold every rule of orphan-reaper and the word "why".
//
// Here one pod is judged (Judge: Keep, Wait or Reap) or one entry of the quarantine (JudgeEntry,
// Lives); Stops says what stops everything, Fold and Recover what the ledger's records mean. Nothing
// here or below makes a system call, reads the clock or writes a log; whoever reads this package,
// decide, heard, reaper/beneath, reaper/removal and the order of steps in reaper/carryout.go has read
// the whole safety argument.
//
// It imports contents, which says of what class a thing in a pod directory is. The others import
// it: decide goes through all pods and entries of one look, heard says what the kubelet's log
// proves, lists which pods a list lets go, reading what other readings are worth, person what a
// command means, inventory what is counted, and cni judges what CNI leaves.
//
// The rules have one shape. A Fact is Unknown until somebody proves it No or Yes, and
// each rule names the one truth that lets a pod go; the other, and Unknown, keep it. The
// exceptions are Rules.onlyYesCounts, Rules.Waive, and Lives, each with its reason there.
// Reasons are a union: one source that says alive wins over all that say dead.
//
// A pod that the kubelet's volume manager holds never goes. Where the volume manager's own
// error is all that keeps it, what lies in the directory that the error names may be moved
// aside (clear.go). Such a verdict is Wait and never Reap, so that nothing that reads a
// decision alone can take the pod.
package policy
