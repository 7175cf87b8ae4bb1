// Package look reads the files that CNI plugins left on the node, and gathers what is known of
// each: libcni's, Multus's and flannel's caches, and the addresses that host-local has given out.
//
// A Reader says where to look. A Sweep goes over all of it in chunks, so that 300,000 files need no
// more memory than 4,096. Read lists and reads the files of a chunk; only then its caller asks the
// runtime, the cgroups and the kubelet, and Look asks the tasks, the other engines' stores and the
// network namespaces, all by the full container ID: a sandbox that is made meanwhile is in the
// answers and not in the chunk. A sweep that removes has the content of each file from this one
// reading. Still drops what has gone or changed before it is archived, and who unlinks a file
// compares it again, byte by byte.
//
// It changes nothing and judges nothing: what cannot be read is Unknown. It opens nothing but
// directories, regular files and namespaces, and takes no ID for another by its beginning. It
// enters a namespace only to read the addresses of one without a process, where it may.
//
// Versions: libcni's cache since 0.7, Multus since 3.7.2, containerd since 1.0 and CRI-O since 1.19
// for the namespace of a sandbox; the formats are those of package parse.
package look
