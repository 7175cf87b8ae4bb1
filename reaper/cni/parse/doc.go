// Package parse reports whose a file is that CNI left on disk.
//
// ParseCache (libcni's results, multus' too), ParseScratch (the delegates that multus and
// flannel keep), ParseHostLocal (addresses that host-local has given) and ParseNetConf
// (which networks there are, and where host-local keeps their addresses) take a file's name
// and content. Like package parsers, this one opens no file and makes no system call.
//
// A file is tied to a container only where its name and all of its content agree on one:
// every copy of a value counts, a key that comes twice contradicts itself, and of a file
// without content the name must hold exactly one whole ID. A file that is tied to nobody
// has the reason in Untied, and nobody may take it.
//
// A tie names the owner of a file, not the owner's death, and the ID of a container that
// another engine runs (Podman, nerdctl, Docker) looks like any other. A Kind is for
// repair: libcni fails on Empty and Unreadable; JSON of a kind that is not known here is
// Unknown, since a newer libcni may well read it. The base64 of the network configuration
// in a cache file is not decoded: it is the network as it was when the pod was made, and
// ParseNetConf reads the network as it is.
package parse
