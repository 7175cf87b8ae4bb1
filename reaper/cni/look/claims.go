package look

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

// unclaimed is a namespace in NetnsDirs without a known owner.
type unclaimed struct {
	namespace

	place string
}

// claim finds the owners of the namespaces that no cache file names. libcni writes a namespace into its cache since 1.2.0, and before
// that there is one only if the plugin put it into its result, which Calico's does not. So the runtime is asked for the namespaces of
// its sandboxes.
func (f *facts) claim(ctx context.Context) {
	f.findUnclaimed()
	if !f.needsOwners() {
		return
	}
	s := f.s
	ask := map[string][]string{}
	for id, l := range f.runtime.ids {
		if l.sandbox && !s.asked[id] {
			s.asked[id] = true
			ask[l.path] = append(ask[l.path], id)
		}
	}
	for _, path := range s.r.sandboxNetns(ctx, ask) {
		if place, ok := f.netns.place(path); ok {
			s.claims[place] = true
		}
	}
	if own, err := s.r.netnsOfProcess(1); err == nil {
		for place, n := range f.netns.have {
			s.claims[place] = s.claims[place] || n.id == own // the node's own, bound by ip netns attach
		}
	}
	f.findUnclaimed()
}

// findUnclaimed finds the namespaces that may belong to a container whose files have none,
// the oldest first.
func (f *facts) findUnclaimed() {
	f.unclaimed = f.unclaimed[:0]
	for place, n := range f.netns.have {
		if !f.s.claims[place] {
			f.unclaimed = append(f.unclaimed, unclaimed{n, place})
		}
	}
	slices.SortFunc(f.unclaimed, func(a, b unclaimed) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.place, b.place))
	})
}

// needsOwners reports whether some container that is not listed may be in one of the namespaces
// without an owner, since no file has its namespace.
func (f *facts) needsOwners() bool {
	if len(f.unclaimed) == 0 {
		return false
	}
	for id, o := range f.owners {
		if !f.runtime.listed(id) && len(o.netns) == 0 {
			return true
		}
	}
	return false
}

// netnsMargin is by how much a namespace must be younger than a file to be another
// sandbox's. The runtime makes the namespace before it calls the plugin, so any margin would do
// with a clock that is never set; an hour allows for one that is.
const netnsMargin = time.Hour

// mayBeIn returns a namespace that may be that of the file's container, "" if there is none: the oldest, unless it was
// made long after the file.
func (f *facts) mayBeIn(file *cni.File) string {
	if len(f.unclaimed) == 0 || !file.Changed.IsZero() && f.unclaimed[0].since.After(file.Changed.Add(netnsMargin)) {
		return ""
	}
	return f.unclaimed[0].place
}
