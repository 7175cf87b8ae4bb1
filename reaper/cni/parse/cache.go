package parse

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// MaxFile is the longest file that is parsed: who reads, reads one byte more at the
// most, and whatever is longer is tied to nobody. The content of a cache file is the
// network configuration, the runtime's capability arguments and the result; containerd
// puts the pod's annotations into the second, for which the API server allows 256 KiB,
// and json.Marshal may write six bytes for one.
const MaxFile = 2 << 20

// Kind says what a file of a CNI cache is by its content.
type Kind int

// The kinds. The zero value is doubt: JSON that no writer known here writes, or a
// file too long or nested too deep to judge. It is tied to nobody.
const (
	Unknown Kind = iota
	// Empty has no bytes: a crash between libcni's open and write.
	Empty
	// Unreadable is not JSON: cut off, zeros, or followed by more. libcni 1.1 fails
	// DelNetworkList on it for ever, 1.2.0 and newer go on.
	Unreadable
	// Legacy is the bare result that libcni 0.7.0 and 0.7.1 wrote, without any ID.
	Legacy
	// CacheV1 is what libcni 0.8.0 and newer write.
	CacheV1
	// Scratch is the delegates that multus (an array) and flannel (an object) keep
	// for DEL in a file that is named after the container.
	Scratch
)

var kindNames = [...]string{"unknown", "empty", "unreadable", "legacy", "v1", "scratch"}

// String returns the kind in one word.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[Unknown]
	}
	return kindNames[k]
}

// Untied says why a file is tied to no container; empty where it is tied to one.
type Untied string

// Why a file is tied to nobody.
const (
	// UntiedName: the name does not hold exactly one container ID, or is not the one
	// that the content asks for.
	UntiedName Untied = "name"
	// UntiedContradiction: two copies of a value that must agree do not.
	UntiedContradiction Untied = "contradiction"
	// UntiedContent: a value is missing, of the wrong type or not what its name says.
	UntiedContent Untied = "content"
	// UntiedSize: longer than MaxFile, or nested too deep.
	UntiedSize Untied = "size"
)

// File is what a file of a CNI cache says of itself.
type File struct {
	Kind Kind
	// Untied is empty if and only if ContainerID is not. Where it is not empty, all
	// that follows is empty but the pod's namespace and name, which are for display.
	Untied Untied
	// ContainerID is the pod sandbox's ID, or that of another engine's container. It is
	// of letters, digits, dots, underscores and dashes; parsers.IsContainerID says whether it
	// is a whole one.
	ContainerID string
	// Network and IfName are what stands before and after the ID in the name.
	Network, IfName string
	// Sandbox says that cniArgs name ContainerID as a pod's sandbox
	// (K8S_POD_INFRA_CONTAINER_ID). The kubelet's runtimes do; Podman and nerdctl, which
	// share the directory, do not.
	Sandbox bool
	// PodUID is K8S_POD_UID of cniArgs, since containerd 1.6.0 and CRI-O 1.22.0. Empty
	// where it is missing or no UID.
	PodUID parsers.PodUID
	// PodNamespace and PodName are of cniArgs; empty where copies disagree or where the
	// text is not one that Kubernetes allows.
	PodNamespace, PodName string
	// NetNS is the path of the network namespace, the only one that the file names:
	// libcni's own key since 1.2.0, else the sandbox of the result's interfaces. It is
	// absolute, and not to be trusted any further.
	NetNS string
}

// ParseCache says what the file name with content, of a results directory of libcni,
// is:
//
//	<network>-<containerID>-<ifname>
//	{"kind":"cniCacheV1","containerId":…,"config":base64,"ifName":…,"networkName":…,"netns":…,
//	 "cniArgs":[["K8S_POD_UID",…],…],"capabilityArgs":{…},"result":{…}}
//
// Network and interface names may hold dashes, so a name is never split: cniCacheV1
// says what it must be, byte for byte, and of every other kind the ID is the only
// thing between two dashes that looks like a whole one. The keys of cniArgs come in
// any order, and twice where multus has added its own: copies must agree.
func ParseCache(name string, content []byte) File {
	switch {
	case len(content) == 0:
		return byName(Empty, name)
	case len(content) > MaxFile:
		return File{Untied: UntiedSize}
	case tooDeep(content):
		return File{Untied: UntiedSize}
	case !json.Valid(content):
		return byName(Unreadable, name)
	}
	var r cacheV1
	r.read(content)
	switch {
	case r.kind.is("cniCacheV1"):
		return r.tie(name)
	case r.isLegacy():
		return byName(Legacy, name)
	}
	return File{Untied: UntiedContent}
}

// ParseScratch says what the file name with content, of multus' or flannel's data
// directory, is. Their name is the container ID and nothing else. The content is a
// JSON array (multus) or object (flannel) of which no ID can be read.
func ParseScratch(name string, content []byte) File {
	f := File{Kind: Scratch}
	switch text := bytes.TrimLeft(content, " \t\r\n"); {
	case len(content) > MaxFile || tooDeep(content):
		return File{Untied: UntiedSize}
	case len(content) == 0:
		f.Kind = Empty
	case !json.Valid(content):
		f.Kind = Unreadable
	case text[0] != '{' && text[0] != '[':
		return File{Untied: UntiedContent}
	}
	if !parsers.IsContainerID(name) {
		f.Untied = UntiedName
		return f
	}
	f.ContainerID = name
	return f
}

// byName ties a file by its name alone: to the one ID that stands between dashes,
// with a network before and an interface after it.
func byName(kind Kind, name string) File {
	f := File{Kind: kind, Untied: UntiedName}
	found, at := 0, strings.IndexByte(name, '-')+1
	for at > 0 {
		end := strings.IndexByte(name[at:], '-')
		if end < 0 {
			break
		}
		if parsers.IsContainerID(name[at : at+end]) {
			found++
			f.Network, f.ContainerID, f.IfName = name[:at-1], name[at:at+end], name[at+end+1:]
		}
		at += end + 1
	}
	if found != 1 || f.Network == "" || !isIfName(f.IfName) {
		return File{Kind: kind, Untied: UntiedName}
	}
	f.Untied = ""
	return f
}

// IsName reports whether s is a name of a network or a container ID as libcni wants
// them since 0.8.0: ^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$. It is one component of a path.
func IsName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c == '_' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}

// isIfName reports whether s may be an interface's name: dev_valid_name() of the kernel,
// which libcni follows, without anything that is not printable ASCII.
func isIfName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' || c == ':' {
			return false
		}
	}
	return s != "" && len(s) <= 15 && s != "." && s != ".."
}

// isPodText reports whether s may be a pod's name or namespace: a DNS subdomain.
func isPodText(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 253
}
