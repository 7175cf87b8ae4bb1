// Package decide says whether and for what to look at the node, and what one look leads to.
//
// Before a look, Quarantine says whether the quarantine is the one that the ledger knows. InWork
// says which of its entries the look is asked for.
//
// Decide takes the look and what was known before it. For each pod and each entry of the quarantine
// it adds the facts that only the log, the ledger and earlier looks give, and has policy judge it.
// Then it plans what follows. Memory is what a pass leaves for the next one, and Next says when to
// look again.
//
// policy judges one pod or one entry and knows no pass. What concerns all of them together, or goes
// from one pass to the next, is here. So this package imports policy, and policy does not import
// it. Nothing here carries out the plan: the loop does. Like all of policy this package makes no
// system call and reads no clock.
package decide
