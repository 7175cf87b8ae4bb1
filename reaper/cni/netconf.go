package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// HostLocalDir is where host-local keeps its reservations, a directory for each network, unless a configuration names another dataDir.
const HostLocalDir = "/var/lib/cni/networks"

// Network is a network that a configuration file names.
type Network struct {
	Name string // one component of a path
	// Folder: it names no plugin. A list may have its plugins in files of their own, NAME/*.conf beside it (libcni 1.3).
	Folder bool
	// DataDirs are the directories above the network's own in which host-local keeps its addresses, absolute and clean, each once.
	DataDirs []string
}

// netConf is the part of a plugin's configuration, and of a list of them, that defines who reserves addresses where. Multus has delegates,
// flannel and others a delegate.
type netConf struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Plugins   []*netConf `json:"plugins"`
	Delegate  *netConf   `json:"delegate"`
	Delegates []*netConf `json:"delegates"`
	IPAM      struct {
		Type    string `json:"type"`
		DataDir string `json:"dataDir"`
	} `json:"ipam"`
}

// maxDelegates is how deep delegates may nest: Multus in Multus, with lists.
const maxDelegates = 8

// ParseNetConf returns the networks that a file of the CNI configuration directory names (.conf, .json: one plugin; .conflist: a
// list), its own first, then those of the delegates that have names of their own, each once. network is the name of the file's
// network where it is a plugin in a list's folder, and empty otherwise.
//
// Whatever differs from the specification is an error: a typing error must not make a network unknown, nor its addresses be
// looked for elsewhere.
func ParseNetConf(content []byte, network string) ([]Network, error) {
	var nets networks
	var conf *netConf
	var err error
	switch {
	case len(content) > MaxFile:
		err = fmt.Errorf("longer than %d bytes", MaxFile)
	case tooDeep(content):
		err = fmt.Errorf("nested deeper than %d", maxDepth)
	default:
		if err = json.Unmarshal(content, &conf); err == nil {
			err = nets.add(conf, network, 0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot parse network configuration: %w", err)
	}
	return nets, nil
}

type networks []Network

// add adds the configuration c, which belongs to network unless it names its own.
func (n *networks) add(c *netConf, network string, depth int) error {
	switch {
	case c == nil:
		return errors.New("null where a configuration should be")
	case depth > maxDelegates:
		return fmt.Errorf("delegates nested deeper than %d", maxDelegates)
	case network == "" || c.Name != "" && depth > 0:
		network = c.Name
	}
	switch {
	case network == "":
		return errors.New("no network name in it")
	case !IsName(network):
		return fmt.Errorf("network name %q: only letters, digits, dots, underscores and dashes are allowed", network)
	}
	if err := n.plugin(c, network); err != nil {
		return err
	}
	below := c.Delegates
	if c.Delegate != nil {
		below = append([]*netConf{c.Delegate}, below...)
	}
	for _, p := range c.Plugins {
		if p != nil {
			p.Name = network // libcni gives each plugin of a list the list's name
		}
	}
	for _, p := range append(c.Plugins, below...) {
		if err := n.add(p, network, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// plugin adds what c itself defines to its network.
func (n *networks) plugin(c *netConf, network string) error {
	at := slices.IndexFunc(*n, func(have Network) bool { return have.Name == network })
	if at < 0 {
		at = len(*n)
		*n = append(*n, Network{Name: network, Folder: true})
	}
	to := &(*n)[at]
	to.Folder = to.Folder && c.Type == ""
	// flannel gives its delegate a host-local of the network's name.
	if c.IPAM.Type != "host-local" && (c.IPAM.Type != "" || c.Type != "flannel") {
		return nil
	}
	dir := HostLocalDir
	switch given := c.IPAM.DataDir; {
	case given == "":
	case given[0] != '/' || strings.Contains(given, "\x00"):
		// A relative one is below whatever directory the runtime runs in.
		return fmt.Errorf("dataDir %q of host-local: use an absolute path", given)
	default:
		dir = path.Clean(given)
	}
	if !slices.Contains(to.DataDirs, dir) {
		to.DataDirs = append(to.DataDirs, dir)
	}
	return nil
}
