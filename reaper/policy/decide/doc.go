// Package decide says whether and for what to look at the node, and what one look leads to.
//
// Before a look, Quarantine says whether the quarantine is the one that the ledger knows, and
// InWork which of its entries the look is asked for.
//
// Decide takes the look and what was known before it, gathers for each pod and each entry of the
// quarantine the facts that only the log, the ledger and earlier looks give, has policy judge it,
// and plans what follows. Memory is what a pass leaves for the next one, and Next says when to look
// again.
//
// policy judges one pod or one entry and knows no pass; what happens over all of them, and from
// one pass to the next, is here. So this package imports policy, and policy does not import it.
// Nothing here carries out what is planned: that is the loop's. As all of policy it makes no
// system call and reads no clock.
package decide
