package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// confs are the networks that the files of the configuration directory define.
type confs struct {
	networks map[string]netConf
	loaded   []string // the networks of the first file, which the runtime loads; none if it cannot be read
	problem  error
}

// netConf is the part of a network's configuration that defines its addresses.
type netConf struct {
	keeper string // the IPAM plugin if it is not host-local
	sets   []rangeSet
	dir    string // host-local's dataDir; "" for the usual one
}

// rangeSet is one range set of host-local: each pod gets one address of each set.
type rangeSet struct {
	ranges []addressRange
	size   int64
}

type addressRange struct{ first, last netip.Addr }

func (s *rangeSet) contains(a netip.Addr) bool {
	return slices.ContainsFunc(s.ranges, func(r addressRange) bool { return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0 })
}

// plugin is a plugin's configuration, or a list of plugins. Multus has delegates; flannel and others have one.
type plugin struct {
	Name, Type string
	Plugins    []plugin
	Delegates  []plugin
	Delegate   *plugin
	IPAM       struct {
		Type, DataDir string
		ipRange
		Ranges [][]ipRange
	}
}

// ipRange is a range as host-local has it.
type ipRange struct{ Subnet, RangeStart, RangeEnd, Gateway string }

const (
	mostConfs = 1000
	mostConf  = 1 << 20
)

// readConfs reads the directory as runtimes do: .conf, .conflist and .json, sorted by name, and the first one is loaded. It
// follows links, as libcni does: only the administrator can write to the directory.
func readConfs(path string) confs {
	c := confs{networks: map[string]netConf{}}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c
	case err == nil && len(entries) > mostConfs:
		err = fmt.Errorf("%s has %d files", path, len(entries))
	}
	if err != nil {
		c.problem = fmt.Errorf("cannot read the network configurations: %w", err)
		return c
	}
	first := true
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".conf", ".conflist", ".json":
		default:
			continue
		}
		names, err := c.read(filepath.Join(path, e.Name()))
		if err != nil && c.problem == nil {
			c.problem = fmt.Errorf("cannot read the network configuration: %w", err)
		}
		if first {
			c.loaded, first = names, false
		}
	}
	return c
}

// read adds the networks of one file, and returns their names.
func (c *confs) read(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > mostConf {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, mostConf)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostConf))
	if err != nil {
		return nil, err
	}
	var p plugin
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var names []string
	c.add(p, "", &names, 0)
	return names, nil
}

// mostDelegates is how deep delegates may nest, as in Multus in Multus with lists.
const mostDelegates = 8

// add adds a plugin or list. A plugin of a list has the list's name, and a delegate has its own if it gives one.
func (c *confs) add(p plugin, network string, names *[]string, depth int) {
	if p.Name == "" || len(p.Name) > 255 {
		p.Name = network
	}
	if p.Name == "" || depth > mostDelegates {
		return
	}
	if !slices.Contains(*names, p.Name) {
		*names = append(*names, p.Name)
	}
	for i, one := range p.Plugins {
		one.Name = p.Name
		if i == 0 || one.IPAM.Type != "" {
			c.add(one, p.Name, names, depth+1)
		}
	}
	if p.Delegate != nil {
		p.Delegates = append(p.Delegates, *p.Delegate)
	}
	for _, one := range p.Delegates {
		c.add(one, p.Name, names, depth+1)
	}
	if _, ok := c.networks[p.Name]; ok || p.Type == "" {
		return
	}
	switch {
	case p.IPAM.Type == "host-local":
		c.networks[p.Name] = hostLocal(p)
	case p.IPAM.Type != "":
		c.networks[p.Name] = netConf{keeper: p.IPAM.Type}
	case p.Type != "flannel" && len(p.Delegates) == 0: // such as cilium-cni; flannel's delegate uses host-local
		c.networks[p.Name] = netConf{keeper: p.Type}
	}
}

func hostLocal(p plugin) netConf {
	n := netConf{}
	if filepath.IsAbs(p.IPAM.DataDir) {
		n.dir = filepath.Clean(p.IPAM.DataDir)
	}
	ranges := p.IPAM.Ranges
	if p.IPAM.Subnet != "" { // the form before range sets
		ranges = append([][]ipRange{{p.IPAM.ipRange}}, ranges...)
	}
	for _, some := range ranges {
		set, ok := rangeSetOf(some)
		if !ok {
			n.sets = nil // the plugin would fail, too
			break
		}
		n.sets = append(n.sets, set)
	}
	return n
}

// rangeSetOf computes what host-local gives out of a range set: neither the network's address, nor the broadcast address,
// nor the gateway (plugins/ipam/host-local/backend/allocator, range.go and allocator.go).
func rangeSetOf(ranges []ipRange) (rangeSet, bool) {
	var set rangeSet
	size := new(big.Int)
	for _, r := range ranges {
		subnet, err := netip.ParsePrefix(r.Subnet)
		if err != nil || !subnet.Addr().IsValid() {
			return set, false
		}
		subnet = subnet.Masked()
		first, last := subnet.Addr().Next(), lastOf(subnet)
		gateway := first
		for _, given := range []struct {
			text string
			addr *netip.Addr
		}{{r.RangeStart, &first}, {r.RangeEnd, &last}, {r.Gateway, &gateway}} {
			if given.text == "" {
				continue
			}
			if *given.addr, err = netip.ParseAddr(given.text); err != nil {
				return set, false
			}
		}
		one := addressRange{first, last}
		set.ranges = append(set.ranges, one)
		size.Add(size, new(big.Int).Sub(number(last), number(first)))
		size.Add(size, big.NewInt(1))
		if first.Compare(gateway) <= 0 && gateway.Compare(last) <= 0 {
			size.Sub(size, big.NewInt(1))
		}
	}
	set.size = math.MaxInt64
	if size.IsInt64() {
		set.size = size.Int64()
	}
	return set, set.size > 0
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// lastOf returns the last address of a subnet; of IPv4 the one before the broadcast address.
func lastOf(subnet netip.Prefix) netip.Addr {
	b := subnet.Addr().AsSlice()
	for i := subnet.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	if last.Is4() {
		last = last.Prev()
	}
	return last
}
