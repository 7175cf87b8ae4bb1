// Package policy and those below it hold every rule of orphan-reaper and the word "why".
//
// Judge judges a pod in place, JudgeEntry and Lives what lies in quarantine: Keep, Return, Wait or Reap, with every
// reason. Standing.Gate decides whether this process may change anything now. Fold and Recover return what the
// ledger's records mean. Nothing here or below makes a system call, reads the clock or writes a log.
//
// It imports contents, which classes what lies in a pod directory. The others import it: decide completes the evidence
// of one look, has it judged and plans; reported holds what the kubelet's log proves; reading what a reading of the node
// is worth. summary is for people.
//
// The rules have one shape. A Fact is Unknown until somebody proves it No or Yes, and
// each rule names the one truth that releases a pod; the other, and Unknown, keep it. The
// exceptions are Rules.onlyYesCounts, Rules.Waive, and Lives, each with its reason there.
// Reasons are a union: one source that shows alive wins over all that show dead.
//
// A pod that the kubelet's volume manager holds never goes. Where the volume manager's own
// error is all that keeps it, what lies in the directory that the error names may be moved
// aside (clear.go). Such a verdict is Wait and never Reap, so that nothing that reads a
// decision alone can take the pod.
package policy
