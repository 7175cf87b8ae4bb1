package look

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

// unclaimed is a namespace in NetnsDirs without a known owner.
type unclaimed struct {
	namespace

	place string
	// addresses are all of its addresses, nil where they could not be read.
	addresses map[netip.Addr]bool
}

// claim finds the owners of the namespaces that no cache file names. libcni writes a namespace into its cache since 1.2.0, and before
// that there is one only where the plugin put it into its result, which Calico's does not. So the runtime is asked for the namespaces of
// its sandboxes. Of a namespace that has no owner then, the addresses are read.
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
	f.enterUnclaimed(ctx)
}

// findUnclaimed finds the namespaces that may belong to a container whose files have none,
// the oldest first.
func (f *facts) findUnclaimed() {
	f.unclaimed = f.unclaimed[:0]
	for place, n := range f.netns.have {
		if !f.s.claims[place] {
			f.unclaimed = append(f.unclaimed, unclaimed{n, place, nil})
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

// mayBeIn returns the first namespace that may be that of the file's container, "" where there is none.
// One that was made long after the file is another's; so is, for an address, one that does not
// have it.
func (f *facts) mayBeIn(file *cni.File) string {
	address := file.Addr()
	for i := range f.unclaimed {
		u := &f.unclaimed[i]
		if !file.Changed.IsZero() && u.since.After(file.Changed.Add(netnsMargin)) {
			return "" // as are all that follow
		}
		if u.addresses == nil || !address.IsValid() || u.addresses[address] {
			return u.place
		}
	}
	return ""
}

// mostAddressed bounds the namespaces whose addresses are read; one that is not read may have any address.
const mostAddressed = 256

// enterUnclaimed reads the addresses of the namespaces without an owner, where this process may enter them. That needs CAP_SYS_ADMIN,
// which an operator's shell has and the service has not.
func (f *facts) enterUnclaimed(ctx context.Context) {
	for i := range f.unclaimed[:min(len(f.unclaimed), mostAddressed)] {
		u := &f.unclaimed[i]
		place, id := u.place, u.id
		addresses, err := bounded.Try(ctx, f.s.r.Guard, "namespace "+place, func() (map[netip.Addr]bool, error) { return addressesIn(place, id) })
		if errors.Is(err, unix.EPERM) || errors.Is(err, bounded.ErrHangs) {
			return
		}
		if err == nil {
			u.addresses = addresses
		}
	}
}

// addressesIn reads the addresses of the network namespace that is bound at a place, on a thread that enters it (setns(2)) and ends.
func addressesIn(place string, id nsID) (map[netip.Addr]bool, error) {
	ns, err := beneath.Retry(func() (int, error) {
		return unix.Open(place, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	defer beneath.Close(ns)
	st, err := beneath.Stat(ns)
	if err != nil || id != nsIDOf(&st) {
		return nil, cmp.Or(err, error(unix.ESTALE))
	}
	found, done := map[netip.Addr]bool{}, make(chan error)
	bounded.OnOwnThread(func() {
		var addresses []net.Addr
		err := unix.Setns(ns, unix.CLONE_NEWNET)
		if err == nil {
			addresses, err = net.InterfaceAddrs()
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				found[prefix.Addr().Unmap()] = true
			}
		}
		done <- err
	})
	return found, <-done
}
