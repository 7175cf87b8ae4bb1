package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	// MaxFile is the longest file that is parsed. containerd puts the pod's annotations into a cache file, for which the API
	// server allows 256 KiB, and json.Marshal may write six bytes for one.
	MaxFile = 2 << 20
	// MaxAddress is the longest reservation that is read; usually it has 70 bytes.
	MaxAddress = 4 << 10
	// maxReservation is more than host-local writes: an ID, which is at most as long as a file name, and an interface's name.
	maxReservation = 512
	// maxDepth is how deep JSON may nest. Recorded files nest four deep; encoding/json stops only at 10,000.
	maxDepth = 64
)

// untied is the reason, for messages, why a file is tied to no container, or "".
type untied string

const (
	untiedName          untied = "its name does not contain exactly one container ID, or differs from what its content requires"
	untiedContradiction untied = "it contradicts itself"
	untiedContent       untied = "a value in it is missing or of the wrong kind"
	untiedSize          untied = "it is too long or nested too deep"
)

// Parse ties the file to the one container on which its name and all of its content agree, and sets the fact Tied.
// It compares whole IDs, never prefixes. An untied file keeps the pod's name, for display.
func (f *File) Parse(content []byte) {
	why := f.parse(content)
	if why == "" && !parsers.IsContainerID(f.Container) {
		f.Container, why = "", "its container ID has no format of the kubelet's runtimes"
	}
	if f.Kind == Address && why != "" {
		why = "its content names no container of the kubelet's runtimes"
		if !f.Addr().IsValid() {
			why = "its name is no address"
		}
	}
	truth := policy.Yes
	if why != "" {
		truth = policy.No
	}
	f.Set(Tied, truth, f.Dir, string(why))
}

func (f *File) parse(content []byte) (why untied) {
	switch f.Kind {
	case Cache:
		why = f.parseCache(content)
	case Multus, Flannel:
		why = f.parseScratch(content)
	case Address:
		why = f.parseAddress(content)
	}
	if why != "" {
		f.Container, f.Network, f.IfName, f.UID, f.NetNS, f.Sandbox = "", "", "", "", "", false
	}
	switch f.Kind {
	case Address:
		f.Network = path.Base(f.Dir)
	case Flannel:
		// The file is the configuration of one network, which flannel wrote for its delegate.
		if networks, err := ParseNetConf(content, ""); err == nil {
			f.Network = networks[0].Name
		}
	case Cache, Multus:
	}
	return why
}

// parseCache parses a file of libcni's results directory, NETWORK-CONTAINER-IFNAME. Network and interface names may
// hold dashes, so the name cannot be split: cniCacheV1 has the parts, and in other formats the ID is the only part
// between two dashes that has the form of a whole ID.
func (f *File) parseCache(content []byte) untied {
	switch {
	case len(content) == 0:
		f.Broken = true // a crash between libcni's open and write
		return f.byName()
	case len(content) > MaxFile || tooDeep(content):
		return untiedSize
	}
	var v cacheV1
	err := json.Unmarshal(content, &v)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		f.Broken = true
		return f.byName()
	}
	switch {
	case v.Kind.value == "cniCacheV1":
		f.V1 = true
		return v.tie(f, content)
	case slices.Max(v.copies()) == 0 && isResult(content):
		return f.byName() // libcni 0.7 wrote the bare result, without any ID
	}
	return untiedContent
}

// byName ties a file by its name alone: to the only ID between dashes, with a network before and an interface after
// it.
func (f *File) byName() untied {
	found, at := 0, strings.IndexByte(f.Name, '-')+1
	for at > 0 {
		end := strings.IndexByte(f.Name[at:], '-')
		if end < 0 {
			break
		}
		if id := f.Name[at : at+end]; parsers.IsContainerID(id) {
			found++
			f.Network, f.Container, f.IfName = f.Name[:at-1], id, f.Name[at+end+1:]
		}
		at += end + 1
	}
	if found != 1 || f.Network == "" || !isIfName(f.IfName) {
		return untiedName
	}
	return ""
}

// parseScratch parses a file of Multus' or flannel's data directory. Its name is the ID. Its content is a JSON array
// (Multus) or object (flannel) without an ID.
func (f *File) parseScratch(content []byte) untied {
	switch text := bytes.TrimLeft(content, " \t\r\n"); {
	case len(content) > MaxFile || tooDeep(content):
		return untiedSize
	case !json.Valid(content):
		f.Broken = true
	case text[0] != '{' && text[0] != '[':
		return untiedContent
	}
	if !parsers.IsContainerID(f.Name) {
		return untiedName
	}
	f.Container = f.Name
	return ""
}

// parseAddress parses a reservation of host-local: "ID\r\nIFNAME" since plugins 0.8.0, the ID alone before,
// "ID\nIFNAME" by forks. The plugin strips white space from both ends of the text (strings.TrimSpace), but not
// of the lines, and compares the rest. A single field must be a whole ID: a shorter one may be truncated.
func (f *File) parseAddress(content []byte) untied {
	if !f.Addr().IsValid() {
		return untiedName
	}
	if len(content) > maxReservation {
		return untiedSize
	}
	text := strings.TrimSpace(string(content))
	id, ifname, found := strings.Cut(text, "\r\n")
	if !found {
		id, ifname, found = strings.Cut(text, "\n")
	}
	if found && IsName(id) && isIfName(ifname) || !found && parsers.IsContainerID(id) {
		f.Container, f.IfName = id, ifname
		return ""
	}
	return untiedContent
}

// tooDeep reports whether a text, which need not be JSON, nests deeper than maxDepth.
func tooDeep(content []byte) bool {
	if bytes.Count(content, []byte("["))+bytes.Count(content, []byte("{")) <= maxDepth {
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[', c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}

// IsName reports whether s is a network name or container ID that libcni accepts since 0.8.0:
// ^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$. It is one component of a path.
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

// isIfName reports whether s may be an interface's name: dev_valid_name() of the kernel, which libcni follows, and
// only printable ASCII.
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
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
