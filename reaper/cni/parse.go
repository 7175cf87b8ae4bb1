package cni

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// mostCache is the longest cache file that is read. containerd puts the pod's annotations into it, for which the API server
	// allows 256 KiB, and json.Marshal may write six bytes for one.
	mostCache = 2 << 20
	// mostAddress is more than host-local writes: an ID and an interface's name.
	mostAddress = 512
)

// kind is the program that wrote a file.
type kind uint8

const (
	cache   kind = iota // libcni: results/NETWORK-ID-INTERFACE
	multus              // Multus' delegates: multus/ID
	flannel             // flannel's delegate: flannel/ID
	address             // host-local's reservation: networks/NETWORK/ADDRESS
)

// kindNames are the classes of the records.
var kindNames = [...]string{"cni-cache", "cni-multus", "cni-flannel", "cni-address"}

// sandboxID is the whole ID of a sandbox, 32 bytes in 64 hexadecimal digits. All runtimes of the kubelet have such IDs.
type sandboxID [32]byte

func parseID(s string) (id sandboxID, ok bool) {
	if !parsers.IsContainerID(s) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

func (id sandboxID) String() string { return hex.EncodeToString(id[:]) }

// content is what the name and the content of one file say.
type content struct {
	id            sandboxID
	known         bool   // the file belongs to the sandbox id
	network       string // "" if the file has none
	ifName        string // of a cache file
	broken        bool   // empty, NULs, or no JSON: a crash between the open and the write
	kubelet       bool   // it has K8S_POD_INFRA_CONTAINER_ID=ID among its arguments
	uids          []string
	netns         []string
	contradiction string // why it is kept as unknown
}

// Why a file belongs to no sandbox.
const (
	badName      = "its name has no sandbox ID of 64 hexadecimal digits, or not exactly one"
	otherName    = "its name differs from its content"
	otherContent = "its content is none that its writer writes"
	twoSandboxes = "its arguments name another sandbox"
)

func unknown(why string) content { return content{contradiction: why} }

func parse(k kind, name string, text []byte) content {
	switch k {
	case cache:
		return parseCache(name, text)
	case multus, flannel:
		return parseScratch(k, name, text)
	case address:
	}
	return parseAddress(text)
}

// parseCache parses a file of libcni:
//
//	since 0.8.0: {"kind":"cniCacheV1","containerId":…,"ifName":…,"networkName":…,"netns":… (1.2.0),
//	              "cniArgs":[["K8S_POD_UID",…],…],"result":{"interfaces":[{"sandbox":"/var/run/netns/…"}]}}
//	0.7:         the result alone, without any ID: {"interfaces":[{"sandbox":…}]}
//
// A network's and an interface's name may contain dashes, so the name is not split: it must be the one that libcni makes of
// the content; without such content, its only ID between two dashes counts.
func parseCache(name string, text []byte) content {
	var v struct {
		Kind, ContainerID, IfName, NetworkName, NetNS string
		CNIArgs                                       [][2]string
		result

		Result result
	}
	c := splitName(name)
	err := json.Unmarshal(text, &v)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		c.broken = true
		return c
	}
	switch {
	case err != nil || !utf8.Valid(text): // json reads another text then, such as another path
		return unknown(otherContent)
	case v.Kind == "" && v.ContainerID == "":
		c.netns = v.namespaces() // libcni 0.7
		return c
	case v.Kind != "cniCacheV1":
		return unknown(otherContent)
	}
	id, ok := parseID(v.ContainerID)
	switch {
	case !ok:
		return unknown(badName)
	case name != v.NetworkName+"-"+v.ContainerID+"-"+v.IfName || v.NetworkName == "" || v.IfName == "":
		return unknown(otherName)
	}
	c = content{id: id, known: true, network: v.NetworkName, ifName: v.IfName}
	for _, arg := range v.CNIArgs { // Multus appends its own copy of each
		switch arg[0] {
		case "K8S_POD_INFRA_CONTAINER_ID":
			c.kubelet = true
			if arg[1] != v.ContainerID {
				return unknown(twoSandboxes)
			}
		case "K8S_POD_UID":
			c.uids = append(c.uids, arg[1])
		}
	}
	c.netns = v.Result.namespaces(v.NetNS)
	return c
}

// result is the part of a plugin's result that has network namespaces.
type result struct{ Interfaces []struct{ Sandbox string } }

// namespaces returns the network namespaces of the result, and more. Some plugins put something else there: only a path is one.
func (r result) namespaces(more ...string) []string {
	for _, i := range r.Interfaces {
		more = append(more, i.Sandbox)
	}
	return slices.DeleteFunc(more, func(path string) bool { return !strings.HasPrefix(path, "/") })
}

// splitName finds the only ID in NETWORK-ID-INTERFACE.
func splitName(name string) content {
	found := content{contradiction: badName}
	for at := range len(name) {
		if name[at] != '-' || at == 0 || len(name) < at+1+64+2 || name[at+65] != '-' {
			continue
		}
		id, ok := parseID(name[at+1 : at+65])
		if !ok {
			continue
		}
		if found.known {
			return unknown(badName)
		}
		found = content{id: id, known: true, network: name[:at], ifName: name[at+66:]}
	}
	return found
}

// parseScratch parses a file of Multus (an array of delegates) or flannel (one configuration). Its name is the ID.
func parseScratch(k kind, name string, text []byte) content {
	id, ok := parseID(name)
	if !ok {
		return unknown(badName)
	}
	c := content{id: id, known: true, broken: !json.Valid(text)}
	if c.broken {
		return c
	}
	type named struct{ Name string }
	var one named
	var list []struct {
		named

		Conf, ConfList named
	}
	var err error
	if k == flannel {
		err = json.Unmarshal(text, &one)
	} else {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return unknown(otherContent)
	}
	c.network = one.Name
	if len(list) > 0 { // the first is the network that the runtime asked for
		c.network = firstOf(list[0].Conf.Name, list[0].ConfList.Name, list[0].Name)
	}
	return c
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// parseAddress parses a reservation: "ID\r\nINTERFACE" since plugins 0.8.0, the ID alone before, "ID\nINTERFACE" by forks.
func parseAddress(text []byte) content {
	if len(bytes.Trim(text, "\x00 \r\n\t")) == 0 {
		return content{broken: true}
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	c := content{}
	if c.id, c.known = parseID(strings.TrimSuffix(id, "\r")); !c.known {
		return unknown("it has no sandbox ID of 64 hexadecimal digits")
	}
	return c
}

// isAddress reports whether a name is a reservation and none of host-local's own files (lock, last_reserved_ip.N).
func isAddress(name string) bool {
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == ""
}
