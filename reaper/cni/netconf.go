package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// HostLocalDir is where host-local keeps its reservations, in a directory for each network, unless a configuration
// has a dataDir.
const HostLocalDir = "/var/lib/cni/networks"

// Network is a network that a configuration file names.
type Network struct {
	Name string // one component of a path
	// Folder is true if its configuration has no plugin: a list may have its plugins in NAME/*.conf (libcni 1.3).
	Folder bool
	// DataDirs are host-local's data directories for the network, absolute and clean. Each has a directory for the network.
	DataDirs []string
}

// netConf is the part of the configuration of a plugin, or of a list of plugins, that defines where addresses are
// reserved. Multus has delegates; flannel and others have one delegate.
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

// maxDelegates is how deep delegates may nest, as in Multus in Multus with lists.
const maxDelegates = 8

// ParseNetConf returns the networks that a file of the CNI configuration directory defines (.conf and .json: one
// plugin; .conflist: a list): its own first, then those of delegates with names of their own. network is the name of
// the list if the file is a plugin in a list's folder, and empty otherwise.
//
// Every deviation from the specification is an error: a typing error must not hide a network or its addresses.
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

// add adds the configuration c, which belongs to network unless it is a delegate with its own name.
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

// plugin adds the definition of c, without its delegates, to its network.
func (n *networks) plugin(c *netConf, network string) error {
	at := slices.IndexFunc(*n, func(have Network) bool { return have.Name == network })
	if at < 0 {
		at = len(*n)
		*n = append(*n, Network{Name: network, Folder: true})
	}
	to := &(*n)[at]
	to.Folder = to.Folder && c.Type == ""
	// flannel adds a host-local with the network's name to its delegate.
	if c.IPAM.Type != "host-local" && (c.IPAM.Type != "" || c.Type != "flannel") {
		return nil
	}
	dir := HostLocalDir
	switch given := c.IPAM.DataDir; {
	case given == "":
	case given[0] != '/' || strings.Contains(given, "\x00"):
		// A relative path would depend on the runtime's working directory.
		return fmt.Errorf("dataDir %q of host-local: use an absolute path", given)
	default:
		dir = path.Clean(given)
	}
	if !slices.Contains(to.DataDirs, dir) {
		to.DataDirs = append(to.DataDirs, dir)
	}
	return nil
}
