// Package decide decides whether and for what to look at the node, and what one look leads to.
//
// Before a look, InWork lists the entries of the quarantine that the look is asked for.
//
// Decide takes the look and what was known before it. It first completes the evidence (assemble.go): the facts that only
// the log, the ledger and earlier looks give. After that nothing changes evidence. Then it has policy judge each pod
// and each entry of the quarantine, and plans what follows. Memory is what a pass leaves for the next one, and
// Next returns when to look again. operator.go has the rules of what an operator asks for, restore and purge.
//
// policy judges one pod or one entry and knows no pass. What concerns all of them together, or goes
// from one pass to the next, is here. So this package imports policy, and policy does not import
// it. Nothing here carries out the plan: the loop does. Like all of policy this package makes no
// system call and reads no clock.
package decide
