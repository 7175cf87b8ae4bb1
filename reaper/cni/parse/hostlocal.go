package parse

import (
	"net/netip"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// HostLocalDir is where the host-local plugin keeps its reservations, a directory for
// each network, unless the network configuration names another dataDir.
const HostLocalDir = "/var/lib/cni/networks"

// HostLocalForm says how a reservation is written.
type HostLocalForm int

// The forms. The zero value is none of them.
const (
	HostLocalUnknown HostLocalForm = iota
	// HostLocalCRLF is "ID\r\nifname", by plugins 0.8.0 and newer (LineBreak is "\r\n" on
	// every system). DEL compares the whole of it with the ID and the interface.
	HostLocalCRLF
	// HostLocalID is the ID alone, by plugins up to 0.7.5 and by kubenet, or what was cut off
	// after the ID. DEL of a newer plugin releases it only if it found no HostLocalCRLF.
	HostLocalID
	// HostLocalLF is "ID\nifname", by forks. No DEL of the plugin matches it.
	HostLocalLF
)

// HostLocalFile is what a file of the host-local plugin says. Two of them are equal if
// and only if they reserve the same address for the same interface of the same
// container in the same form, so who read a file before it had the lock compares.
type HostLocalFile struct {
	// Addr is the address that the name says, IPv4 also where it is written as IPv6.
	Addr netip.Addr
	Form HostLocalForm
	// Untied is empty if and only if ContainerID is not.
	Untied Untied
	// ContainerID is as in File. Of a HostLocalID it is a whole one: a shorter word
	// that stands alone may be a piece of an ID.
	ContainerID string
	// IfName is empty where only the ID is written.
	IfName string
}

// ParseHostLocal says what the file name with content, of a network's directory of the
// host-local plugin, reserves. It reports false for every name that is no address: lock,
// last_reserved_ip.N and what the plugin never wrote.
//
// The plugin strips white space from both ends of the content (strings.TrimSpace, not
// from those of the lines) and compares the rest with "ID\r\nifname", then with "ID",
// so both lines count: with the first alone, one interface's DEL would take another's
// address.
func ParseHostLocal(name string, content []byte) (HostLocalFile, bool) {
	addr, err := netip.ParseAddr(name)
	if err != nil || addr.Zone() != "" {
		return HostLocalFile{}, false
	}
	f := HostLocalFile{Addr: addr.Unmap()}
	// The longest that is right: an ID of a file name's length and an interface's name.
	if len(content) > 512 {
		f.Untied = UntiedSize
		return f, true
	}
	text := strings.TrimSpace(string(content))
	id, ifname, found := strings.Cut(text, "\r\n")
	form := HostLocalCRLF
	if !found {
		form = HostLocalLF
		id, ifname, found = strings.Cut(text, "\n")
	}
	switch {
	case found && IsName(id) && isIfName(ifname):
	case !found && parsers.IsContainerID(id):
		form = HostLocalID
	default:
		f.Untied = UntiedContent
		return f, true
	}
	f.Form, f.ContainerID, f.IfName = form, id, ifname
	return f, true
}
