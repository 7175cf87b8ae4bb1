package cni

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// network counts the addresses of one network of host-local: all of them, and those of each range set.
type network struct {
	all  counts
	sets []counts
}

type counts struct{ used, stale, waiting int }

// mostShown bounds the networks of the status: those that are full, and those with the most stale addresses.
const mostShown = 100

// tally counts an address in the directory of a network. The range sets are those of the directory that is configured.
func (f *found) tally(d *directory, addr string, change func(*counts)) {
	name := path.Base(d.path)
	n, conf := f.networks[name], f.conf.networks[name]
	if n == nil {
		n = &network{sets: make([]counts, len(conf.sets))}
		f.networks[name] = n
	}
	change(&n.all)
	if conf.dir != "" && conf.dir != d.base {
		return
	}
	for i, set := range conf.sets {
		if set.contains(addressOf(addr)) {
			change(&n.sets[i])
		}
	}
}

// status returns the counts of the range set that runs out first: a pod gets one address of each.
func (n *network) status(name string, sets []rangeSet) reaper.CNINetwork {
	shown, size := n.all, int64(0)
	for i, set := range sets {
		if i == 0 || set.size-int64(n.sets[i].used) < size-int64(shown.used) {
			shown, size = n.sets[i], set.size
		}
	}
	return reaper.CNINetwork{
		Name: bounded.Name(name), Used: shown.used, Stale: shown.stale, Waiting: shown.waiting, Size: size,
		Full: len(sets) > 0 && int64(shown.used) >= size,
	}
}

// networkStatus returns what lies in the networks of host-local, and which plugin keeps the addresses of the others.
func (f *found) networkStatus() []reaper.CNINetwork {
	var all []reaper.CNINetwork
	for name, conf := range f.conf.networks {
		if conf.keeper != "" {
			all = append(all, reaper.CNINetwork{Name: bounded.Name(name), Keeper: bounded.Name(conf.keeper)})
		} else if f.networks[name] == nil && !f.unread[""] {
			f.networks[name] = &network{sets: make([]counts, len(conf.sets))}
		}
	}
	for name, n := range maps.All(f.networks) {
		if !f.unread[name] { // else the numbers are too small
			all = append(all, n.status(name, f.conf.networks[name].sets))
		}
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
