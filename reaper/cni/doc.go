// Package cni removes the residue of dead pods that CNI plugins leave: cache files of libcni, the delegates of
// Multus and flannel, and the addresses of host-local.
//
// [File.Parse] ties a [File] to its container, and [Judge] decides from the facts of one look. A [Sweeper]
// looks, judges, archives, records in the ledger and removes; [Sweeper.Restore] reverses that. [Listings]
// hold the containers that the runtime has listed since the first look. A [Census] counts results.
//
// It opens no file and makes no system call: package look reads the node, and package remove archives, removes
// and restores files.
package cni
