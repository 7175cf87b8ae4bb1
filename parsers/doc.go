// Package parsers turns text into values: kubelet log lines in every transport
// into sightings, strings into pod UIDs, and what CNI leaves on disk into the containers
// that it belongs to.
//
// It never opens a file, never reads the clock, makes no system call and imports
// nothing else of this module: whoever has bytes may ask what they say. What a
// line says is a hint and never proof (docs/how-it-decides.md); this package only
// makes sure that the words are the kubelet's own, and not words that the kubelet,
// or another program, quotes.
//
// How: each line is read from its first byte to its last by a grammar, outside in. The
// transport (transport*.go) says which program wrote it and where its words start;
// klog's header (klog.go) or JSON object (transport_json.go) says which source file of
// the kubelet did; the message (message.go, teardown.go) is compared with that file's
// own format strings from its beginning. Nothing is ever searched for, so a report in
// a probe's output, in a volume's name or in another program's log stands where no
// rule looks. A UID that a second place in the same line contradicts is none.
//
// What it cannot tell: the text of `logger -t kubelet` in a syslog file from a
// kubelet's, and a line of its own that a directory's name with a newline makes of an
// old kubelet's message (1.20 and older; newer ones quote, or print a block whose
// lines start with a tab). Such lines name a pod all the same, and are why only
// journald's trusted fields make a sighting Trusted.
//
// Scanner reads a whole log, Parser a line at a time, Index what lies between: it finds
// in a block the few lines that are worth parsing.
//
// # What CNI leaves on disk
//
// ParseCNICache (libcni's results, multus' too), ParseCNIScratch (the delegates that
// multus and flannel keep), ParseHostLocal (addresses that host-local has given) and
// ParseNetConf (which networks there are, and where host-local keeps their addresses)
// take a file's name and content. A file is tied to a container only where its name and
// all of its content agree on one: every copy of a value counts, a key that comes twice
// contradicts itself, and of a file that says nothing the name must hold exactly one
// whole ID. Whatever is not tied says why (Untied), and is nobody's to take.
//
// A tie says whose a file is, not that its owner is dead, and the ID of a container that
// another engine runs (Podman, nerdctl, Docker) looks like any other. A Kind is for
// repair: CNIEmpty and CNIUnreadable are what libcni fails on; JSON of a kind that is
// not known here is CNIUnknown, since a newer libcni may well read it. The base64 of the
// network configuration in a cache file is not decoded: it says how the network was
// when the pod was made, and ParseNetConf says how it is.
package parsers
