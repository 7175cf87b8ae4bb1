// Package cni sweeps over what CNI leaves of dead pods: cache files of libcni, the delegates of
// Multus and flannel, and the addresses of host-local.
//
// [File.Parse] ties a [File] to its container, [Judge] decides from the facts of one look, and a [Sweeper] goes
// one way: look, judge, archive, ledger, remove. [Sweeper.Restore] goes the reverse. [Listings] keep what the
// runtime has listed since the first look, and a [Census] counts.
//
// It opens no file and makes no system call: package look reads the node, package remove archives, removes and
// writes back.
package cni
