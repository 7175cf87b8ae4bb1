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

// claim finds the owners of the namespaces that no cache file names, by asking the runtime for the namespaces of its
// sandboxes. libcni writes a namespace into its cache only since 1.2.0, and some plugins, such as Calico's, do not
// write one into their result.
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
			s.claims[place] = s.claims[place] || n.id == own // bound by ip netns attach
		}
	}
	f.findUnclaimed()
}

// findUnclaimed lists the namespaces without an owner, the oldest first.
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

// needsOwners reports whether an unlisted container may be in a namespace without an owner, since no file has the
// container's namespace.
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

// netnsMargin is how much younger than a file a namespace must be to belong to another sandbox. The runtime creates
// the namespace before it calls the plugin; an hour allows for a clock that was set.
const netnsMargin = time.Hour

// possibleNetns returns a namespace that may be that of the file's container, or "": the oldest, unless it was created
// long after the file.
func (f *facts) possibleNetns(file *cni.File) string {
	if len(f.unclaimed) == 0 || !file.Changed.IsZero() && f.unclaimed[0].since.After(file.Changed.Add(netnsMargin)) {
		return ""
	}
	return f.unclaimed[0].place
}
