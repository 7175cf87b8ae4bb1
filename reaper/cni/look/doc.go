// Package look reads the files that CNI plugins leave on the node (the caches of libcni, Multus and flannel, and the
// addresses that host-local has reserved) and gathers the facts of each.
//
// A [Reader] has the directories. A [Sweep] reads all of them in chunks, so that 300,000 files need no more
// memory than 4,096. Each [Sweep.Next] reads the files of a chunk (read.go), and only then asks the runtime,
// the cgroups, the kubelet, the tasks, the stores of other engines and the network namespaces, all by the full
// container ID (facts.go, runtime.go, iddirs.go, netns.go): a sandbox that is created meanwhile is in the
// answers, and its files are not in the chunk. If no file has a container's network namespace, claims.go finds the
// owner of each namespace. [Reader.StillCNI] marks files that are missing or changed before they are archived, and
// package remove compares the content of each file again.
//
// It changes nothing and judges nothing: a value that cannot be read is Unknown. It opens only directories and
// regular files, and compares whole IDs. It enters no namespace.
//
// Versions: libcni's cache since 0.7, Multus since 3.7.2, containerd since 1.0 and CRI-O since 1.19
// for the namespace of a sandbox; package cni parses the formats.
package look
