// Package cni holds the rules for what CNI leaves of dead pods: cache files of libcni, the
// delegates of Multus and flannel, and the addresses of host-local.
//
// It is policy's smaller neighbour and as pure: Judge takes what one look found out about one
// file, and answers with a verdict and its reasons. Listings remember what the runtime has
// listed, Census counts, and Sweeping, Swept and Unswept write the records of the ledger. Only
// reaper/cnisweep asks for a verdict and acts on it. Nothing here opens a file.
package cni
