// Package cni removes what CNI plugins leave of sandboxes that are gone: libcni's cache (results/NETWORK-ID-INTERFACE, also
// below multus and cache), Multus' and flannel's files (multus/ID, flannel/ID), and the addresses that host-local has
// reserved (networks/NETWORK/ADDRESS).
//
// A file is removed if all three columns have a yes. What is not known keeps it, and is counted as unknown, never as alive.
//
//	its sandbox is gone        a kubelet runs, every runtime that connects has answered completely after the files were
//	                           listed, and none lists the ID of 64 hexadecimal digits, in any state. An answer without any
//	                           sandbox counts only for files that are older than this boot.
//	it is the kubelet's        it or another file of the ID has K8S_POD_INFRA_CONTAINER_ID=ID; or such a file names its network;
//	                           or the runtime loads its network (the first file of cni_conf_dir). No other engine's store, and
//	                           no running containerd task, has the ID.
//	it is old enough           it is older than this boot; or we have cleaned its pod; or it is older than cni_older_than, and a
//	                           file of the ID has a network namespace that is gone. None has one that is there.
//
// Two more, of files that a crash has left empty or cut short:
//   - A cache of a sandbox that is listed and not ready is removed: CNI DEL fails by it for ever (containerd issue 8197, cni
//     issue 1055). The runtime calls the plugin without it, too.
//   - An empty address file has no ID. It is removed if it is older than this boot, its network is the kubelet's, and no living
//     sandbox has the address.
//
// # Why each is safe
//
//   - Older than this boot: no network namespace outlives one, so nothing uses the address. A runtime that keeps its sandboxes
//     over a boot lists them, and they are kept. /run's birth is in the clock of the files' times. A clock that ran ahead at
//     the boot makes files of this boot look older; then the runtime's list and the namespaces still keep the living, and an
//     ADD under way is kept since its file is younger than ten minutes. A clock that was behind only keeps more.
//   - Cleaned: the kubelet has reported the pod, and nothing has shown within confirm that it is alive. A static pod that
//     returns under its UID has a new sandbox, whose files are younger than ten minutes until the runtime lists it.
//   - The rest: the namespace is in the runtime's list of arguments, and it is gone from the node's root directory.
//   - An ADD under way: its sandbox may be in no list yet. It is of this boot, and its pod was not cleaned.
//   - An emptied containerd lists nothing: only files of earlier boots go. One that has lost a part still has its tasks.
//   - Podman beside it keeps its conflists in the same directory, and may use the same networks. Its store has the ID.
//
// # Removal and undo
//
// All files of a sweep are first written to one tar in the state directory, which is on disk before the first file is removed,
// and kept for the retention; `tar -C / -xkmf` restores them. A file is removed by unlinkat in its directory, which is held
// open, if its inode and change time are those that were judged: every write changes the latter. Addresses are removed under
// the plugin's own lock. Killed at any instruction, the next sweep judges what is left; the archive has what is gone. The
// archive is the only file that this package makes; package quarantine has the call that removes.
//
// host-local's lock is NETWORK/lock since plugins 0.8.0. A network without that file has had no such plugin at work.
package cni
