// Package decide decides whether and for what to look at the node, and what one look leads to.
//
// Before a look, InWork lists the entries of the quarantine that the look is asked for.
//
// Decide completes the evidence of a look by log, ledger and earlier looks (assemble.go); after that nothing changes it. Then
// it has policy judge each pod and each entry of the quarantine, and plans what follows. Memory is what a pass leaves for
// the next one, and Next returns when to look again. operator.go has the rules of restore and purge.
//
// policy judges one pod or one entry. What concerns all of them together, or goes from one pass to the next, is here.
// Nothing here carries out the plan: the loop does. Like all of policy this package makes no system call and reads no
// clock.
package decide
