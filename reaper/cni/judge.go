package cni

import (
	"net/netip"
	"slices"
)

// state is the verdict on one file. The zero value keeps it.
type state uint8

const (
	isUnknown state = iota
	isAlive         // the runtime lists its sandbox
	isOthers        // it is not known to be the kubelet's
	isWaiting       // for its age, or for the next boot
	isStale         // it is removed
)

// evidence is what all files of a sweep are judged by.
type evidence struct {
	complete bool               // a kubelet runs, and every runtime that connects has answered completely
	boxes    sandboxes          // what they list
	stored   map[sandboxID]bool // in the stores of other engines
	doubt    error              // why the stores are not known
	kubelets map[uint32]bool    // the networks that a file with the kubelet's argument names, and those that the runtime loads
	// addresses returns the addresses of the living sandboxes. It is called if there is an empty file.
	addresses func() (map[netip.Addr]bool, error)
}

// Why a file is kept as unknown.
const (
	whyEmpty     = "the runtimes list no sandbox at all: only files older than this boot are removed then"
	whyThere     = "the runtimes do not list its sandbox, whose network namespace is there"
	whyAddresses = "it is empty, and the addresses of the living sandboxes could not be read"
)

// verdict judges one file by the table of the package's doc. all are the marks of all files of its sandbox.
func (e *evidence) verdict(f *file, k kind, name string, all marks) (state, string) {
	if !e.complete {
		return isUnknown, ""
	}
	if !f.has(known) {
		return e.empty(f, name)
	}
	if ready, listed := e.boxes.ready[f.id]; listed {
		if f.has(broken) && k != address && !ready && f.has(beforeAdd) {
			return isStale, "" // it makes CNI DEL fail for ever, so the sandbox cannot be removed
		}
		return isAlive, ""
	}
	switch {
	case e.doubt != nil:
		return isUnknown, ""
	case e.stored[f.id], all&kubelets == 0 && !e.kubelets[f.net]:
		return isOthers, ""
	case all&netnsThere != 0:
		return isUnknown, whyThere
	case f.has(beforeBoot):
		return isStale, ""
	case len(e.boxes.ready) == 0:
		return isUnknown, whyEmpty
	case all&ofCleaned != 0 && all&ofAnother == 0 && f.has(beforeAdd):
		return isStale, ""
	case f.has(oldEnough) && f.has(beforeAdd) && all&netnsGone != 0 && all&netnsUnknown == 0:
		return isStale, ""
	}
	return isWaiting, ""
}

// empty judges an address file without an ID: only the boot shows its age, and host-local gives the address to no sandbox
// while the file is there.
func (e *evidence) empty(f *file, name string) (state, string) {
	switch {
	case !e.kubelets[f.net]:
		return isOthers, ""
	case !f.has(beforeBoot):
		return isWaiting, ""
	}
	living, err := e.addresses()
	switch {
	case living[addressOf(name)]:
		return isAlive, ""
	case err != nil:
		return isUnknown, whyAddresses + ": " + err.Error()
	}
	return isStale, ""
}

// kubeletNetworks returns the networks that files with the kubelet's argument name, and those that the runtime loads.
func (f *found) kubeletNetworks() map[uint32]bool {
	nets := map[uint32]bool{}
	for i := range f.files {
		if x := &f.files[i]; x.has(kubelets) {
			nets[x.net] = true
		}
	}
	for _, name := range f.conf.loaded {
		nets[f.text(name)] = true
	}
	return nets
}

// judge judges every file, counts them in the status, and returns the stale ones.
func (f *found) judge(e *evidence) []file {
	slices.SortFunc(f.files, func(a, b file) int { return slices.Compare(a.id[:], b.id[:]) })
	stale := f.files[:0] // a file is read before another one takes its place
	for from := 0; from < len(f.files); {
		to, all := from, marks(0)
		for ; to < len(f.files) && f.files[to].id == f.files[from].id && f.files[to].has(known) == f.files[from].has(known); to++ {
			all |= f.files[to].marks
		}
		for i := from; i < to; i++ {
			x := &f.files[i]
			s, why := e.verdict(x, f.dirs[x.dir].kind, f.texts[x.last], all)
			if f.count(x, s, why) {
				stale = append(stale, *x)
			}
		}
		from = to
	}
	return stale
}

// count adds a file to the status, and reports whether it is stale.
func (f *found) count(x *file, s state, why string) bool {
	tally := func(change func(*counts)) {
		if d := &f.dirs[x.dir]; d.kind == address {
			f.tally(d, f.texts[x.last], change)
		}
	}
	switch s {
	case isUnknown:
		f.status.Unknown++
		if why != "" {
			f.keep(f.path(x), why)
		}
	case isOthers:
		f.status.Others++
	case isWaiting:
		f.status.Waiting++
		tally(func(n *counts) { n.waiting++ })
	case isStale:
		f.status.Stale++
		tally(func(n *counts) { n.stale++ })
	case isAlive:
	}
	return s == isStale
}

// addressOf returns the address of a file's name.
func addressOf(name string) netip.Addr {
	a, _ := netip.ParseAddr(name)
	return a.Unmap()
}
