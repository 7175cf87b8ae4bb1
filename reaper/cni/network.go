package cni

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// network is what is known of one network of host-local.
type network struct {
	reaper.CNINetwork

	sets []int64 // reserved addresses in each range set
}

// mostShown bounds the networks of the status: those that are full, and those with the most stale addresses.
const mostShown = 100

// reserve counts a reserved address.
func (f *found) reserve(name, addr string) {
	n := f.networks[name]
	if n == nil {
		n = &network{CNINetwork: reaper.CNINetwork{Name: bounded.Name(name)}, sets: make([]int64, len(f.conf.networks[name].sets))}
		f.networks[name] = n
	}
	n.Used++
	f.inSets(n, name, addr, 1)
}

// release uncounts an address that was stale.
func (f *found) release(name, addr string) {
	n := f.networks[name]
	n.Used--
	n.Stale--
	f.inSets(n, name, addr, -1)
}

func (f *found) inSets(n *network, name, addr string, by int64) {
	for i, set := range f.conf.networks[name].sets {
		if set.contains(addressOf(addr)) {
			n.sets[i] += by
		}
	}
}

// networkStatus returns what lies in the networks of host-local, and which plugin keeps the addresses of the others.
func (f *found) networkStatus() []reaper.CNINetwork {
	var all []reaper.CNINetwork
	for name, conf := range f.conf.networks {
		if conf.keeper != "" {
			all = append(all, reaper.CNINetwork{Name: bounded.Name(name), Keeper: bounded.Name(conf.keeper)})
		} else if f.networks[name] == nil {
			f.networks[name] = &network{CNINetwork: reaper.CNINetwork{Name: bounded.Name(name)}, sets: make([]int64, len(conf.sets))}
		}
	}
	for name, n := range maps.All(f.networks) {
		for i, set := range f.conf.networks[name].sets {
			if n.Size == 0 || set.size < n.Size {
				n.Size = set.size
			}
			n.Full = n.Full || n.sets[i] >= set.size
		}
		all = append(all, n.CNINetwork)
	}
	worst := func(a, b reaper.CNINetwork) int {
		if a.Full != b.Full {
			if a.Full {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Stale, a.Stale), cmp.Compare(b.Used, a.Used), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(all, worst)
	all = all[:min(len(all), mostShown)]
	slices.SortFunc(all, func(a, b reaper.CNINetwork) int { return strings.Compare(a.Name, b.Name) })
	return all
}
