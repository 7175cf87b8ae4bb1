// Package policy and those below it hold every rule of orphan-reaper and every reason.
//
// Judge judges a pod in place, JudgeEntry and Lives what lies in quarantine: Keep, Return, Wait or Reap, with every
// reason. Standing.Gate decides whether this process may change anything now. Fold and Recover return what the
// ledger's records mean. Nothing here or below makes a system call, reads the clock or writes a log.
//
// It imports contents, which classes what lies in a pod directory. The others import it: decide completes the evidence
// of one look, has it judged and plans; reported holds what the kubelet's log proves; reading returns what a reading of
// the node is worth; summary sums up for display.
//
// The rules have one shape. A Fact is Unknown until a source proves it No or Yes, and each rule has the one truth that
// releases a pod; the other, and Unknown, keep it. The exceptions are Rules.onlyYesCounts, Rules.Waive, and Lives. Reasons
// are a union: one source that shows alive wins over all that show dead.
//
// A pod that the kubelet's volume manager holds is never moved. If the volume manager's error is all that keeps it, the
// content of the directory in the error may be moved (clear.go). Such a verdict is Wait and never Reap.
package policy
