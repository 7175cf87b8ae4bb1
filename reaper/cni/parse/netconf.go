package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Network is a network that a network configuration file names.
type Network struct {
	// Name is one component of a path.
	Name string
	// Plugins are the types of the plugins in order, those that plugins call included,
	// where the file says so. Empty in a list that has its plugins in files of their
	// own, <name>/*.conf beside it (libcni 1.3).
	Plugins []string
	// IPAM is where the network's addresses come from; each once.
	IPAM []IPAM
	// DisableGC: somebody else adds to this network beside the runtime, so that nobody
	// knows all of its attachments (CNI 1.1).
	DisableGC bool
}

// IPAM is an IPAM plugin of a network.
type IPAM struct {
	Type string
	// DataDir is the directory above the network's own; an absolute and clean path.
	// Only of host-local, HostLocalDir where nothing else is said.
	DataDir string
}

// netConf are the parts of a plugin's configuration, and of a list of them, that say
// who reserves addresses where. The names are those of the CNI specification; multus
// has delegates, flannel and others a delegate.
type netConf struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	DisableGC any        `json:"disableGC"`
	Plugins   []*netConf `json:"plugins"`
	Delegate  *netConf   `json:"delegate"`
	Delegates []*netConf `json:"delegates"`
	IPAM      *struct {
		Type    string `json:"type"`
		DataDir string `json:"dataDir"`
	} `json:"ipam"`
}

// maxDelegates is how deep delegates may nest: multus in multus, with lists.
const maxDelegates = 8

var errNoNetwork = errors.New("no network name in it")

// ParseNetConf returns the networks that a file of the CNI configuration directory
// names (.conf, .json: one plugin; .conflist: a list), its own first, then those of the
// delegates that have names of their own, each once. network is the name of a file's
// network where it is a plugin of a list's folder, and empty otherwise.
//
// Whatever is not as the specification says is an error, so that nobody takes a
// network for unknown, or its addresses to be elsewhere, for a typing error.
func ParseNetConf(content []byte, network string) ([]Network, error) {
	if len(content) > MaxFile {
		return nil, fmt.Errorf("cannot parse network configuration: longer than %d bytes", MaxFile)
	}
	// encoding/json nests to 10,000; what follows must not.
	if tooDeep(content) {
		return nil, fmt.Errorf("cannot parse network configuration: nested deeper than %d", maxJSONDepth)
	}
	var conf *netConf
	if err := json.Unmarshal(content, &conf); err != nil {
		return nil, fmt.Errorf("cannot parse network configuration: %w", err)
	}
	var nets networks
	if err := nets.add(conf, network, 0); err != nil {
		return nil, fmt.Errorf("cannot parse network configuration: %w", err)
	}
	return nets, nil
}

type networks []Network

// add adds the configuration c, which belongs to network unless it names its own.
func (n *networks) add(c *netConf, network string, depth int) error {
	if c == nil {
		return errors.New("null where a configuration should be")
	}
	if depth > maxDelegates {
		return fmt.Errorf("delegates nested deeper than %d", maxDelegates)
	}
	if network == "" || (c.Name != "" && depth > 0) {
		network = c.Name
	}
	if network == "" {
		return errNoNetwork
	}
	if !IsName(network) {
		return fmt.Errorf("network name %q: only letters, digits, dots, underscores and dashes are allowed", network)
	}
	if err := n.plugin(c, network); err != nil {
		return err
	}
	for _, p := range c.Plugins {
		// libcni gives each plugin of a list the list's name.
		if p != nil {
			p.Name = network
		}
		if err := n.add(p, network, depth+1); err != nil {
			return err
		}
	}
	if c.Delegate != nil {
		if err := n.add(c.Delegate, network, depth+1); err != nil {
			return err
		}
	}
	for _, d := range c.Delegates {
		if err := n.add(d, network, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// plugin adds what c itself says to its network.
func (n *networks) plugin(c *netConf, network string) error {
	at := slices.IndexFunc(*n, func(have Network) bool { return have.Name == network })
	if at < 0 {
		at = len(*n)
		*n = append(*n, Network{Name: network})
	}
	to := &(*n)[at]
	if c.Type != "" {
		to.Plugins = append(to.Plugins, c.Type)
	}
	off, err := isTrue(c.DisableGC)
	if err != nil {
		return err
	}
	to.DisableGC = to.DisableGC || off

	ipam := IPAM{}
	if c.IPAM != nil {
		ipam = IPAM{Type: c.IPAM.Type, DataDir: c.IPAM.DataDir}
	}
	if ipam.Type == "" && c.Type == "flannel" {
		// flannel gives its delegate a host-local of the network's name.
		ipam.Type = hostLocal
	}
	if ipam.Type == "" {
		return nil
	}
	if ipam.Type != hostLocal {
		ipam.DataDir = ""
	} else if ipam.DataDir, err = dataDir(ipam.DataDir); err != nil {
		return err
	}
	if !slices.Contains(to.IPAM, ipam) {
		to.IPAM = append(to.IPAM, ipam)
	}
	return nil
}

const hostLocal = "host-local"

// dataDir returns the directory that host-local uses. A relative one is below whatever
// directory the runtime runs in: nobody else can tell.
func dataDir(dir string) (string, error) {
	switch {
	case dir == "":
		return HostLocalDir, nil
	case dir[0] != '/' || strings.Contains(dir, "\x00"):
		return "", fmt.Errorf("dataDir %q of host-local: use an absolute path", dir)
	}
	return path.Clean(dir), nil
}

// isTrue reads a boolean that libcni also takes as a string, in any case.
func isTrue(v any) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(v) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, fmt.Errorf("disableGC %v: use true or false", v)
}
