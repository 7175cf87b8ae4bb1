package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// netnsSet are the namespaces that are bound in NetnsDirs.
type netnsSet struct {
	// dirs has the first of equal directories for each configured one: /var/run/netns usually
	// is /run/netns.
	dirs map[string]string
	have map[string]time.Time // since when, at the latest; zero where that is not known
	ids  map[string]nsID      // which one it is
	err  error
}

// nsID identifies a namespace as long as it exists: the device and inode of its
// file, whatever its name (namespaces(7)).
type nsID struct{ dev, ino uint64 }

const mostNetns = 100_000

func (r *Reader) netnsSet(ctx context.Context) netnsSet {
	n, err := bounded.Do(ctx, r.Guard, "network namespaces", func() netnsSet {
		n := netnsSet{dirs: map[string]string{}, have: map[string]time.Time{}, ids: map[string]nsID{}}
		seen := map[[2]uint64]string{}
		for _, dir := range r.NetnsDirs {
			n.read(filepath.Clean(dir), seen)
		}
		return n
	})
	if err != nil {
		n.err = fmt.Errorf("cannot read the network namespaces: %w", err)
	}
	return n
}

func (n *netnsSet) read(dir string, seen map[[2]uint64]string) {
	n.dirs[dir] = dir
	fd, err := beneath.Retry(func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		n.fail(dir, err)
		return
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	if err != nil {
		n.fail(dir, err)
		return
	}
	id := [2]uint64{beneath.DevOf(&st), st.Ino}
	if first, ok := seen[id]; ok {
		n.dirs[dir] = first
		return
	}
	seen[id] = dir
	entries, err := beneath.List(fd, mostNetns)
	n.fail(dir, err)
	for _, e := range entries {
		if st, err := beneath.StatName(fd, e.Name); !beneath.Gone(err) {
			n.have[dir+"/"+e.Name] = boundSince(&st, err)
			if err == nil {
				n.ids[dir+"/"+e.Name] = nsID{beneath.DevOf(&st), st.Ino}
			}
		}
	}
}

// boundSince returns the earliest time of a namespace's inode, which is made when the namespace
// is bound, at the latest, and kept as long as it is bound.
func boundSince(st *unix.Statx_t, err error) time.Time {
	if err != nil {
		return time.Time{}
	}
	first := min(beneath.Nanos(st.Ctime), beneath.Nanos(st.Mtime))
	if st.Mask&unix.STATX_BTIME != 0 {
		first = min(first, beneath.Nanos(st.Btime))
	}
	return time.Unix(0, first)
}

func (n *netnsSet) fail(dir string, err error) {
	if err != nil && n.err == nil && !beneath.Gone(err) {
		n.err = fmt.Errorf("cannot read the network namespaces: %w", beneath.PathError("read", dir, err))
	}
}

// place returns the path as it is in have, and reports whether it is below one of dirs.
func (n *netnsSet) place(path string) (string, bool) {
	path = filepath.Clean(path)
	dir, ok := n.dirs[filepath.Dir(path)]
	return dir + "/" + filepath.Base(path), ok
}

// netnsMargin is by how much a namespace must be younger than a file to be another
// sandbox's. The runtime makes the namespace before it calls the plugin, so any margin would do
// with a clock that is never set; an hour allows for one that is.
const netnsMargin = time.Hour

// netns returns whether the network namespace of the file's container exists.
func (f *chunkFacts) netns(o *owner, file *cni.File) policy.Fact {
	n, changed := &f.k.netns, file.Changed
	if len(o.netns) > 0 {
		fact := policy.Fact{Truth: policy.No, Origin: o.netns[0]}
		for _, path := range o.netns {
			switch got := f.netnsAt(path, changed); got.Truth {
			case policy.Yes:
				return got
			case policy.Unknown:
				fact = got
			case policy.No:
			}
		}
		return fact
	}
	fact := policy.Fact{Origin: strings.Join(f.s.r.NetnsDirs, ", ")}
	switch {
	case n.err != nil:
		fact.Detail = n.err.Error()
	default:
		fact.Truth = policy.No
		if place := f.mayBeIn(file); place != "" {
			fact.Truth = policy.Unknown
			fact.Detail = "no cache file has its network namespace, and " + clean.Name(place) + " belongs to no known container: " +
				"see ip netns pids and ip -n NAME address with NAME " + clean.Name(filepath.Base(place)) + "; if it is left over, remove it with ip netns delete"
		}
	}
	return fact
}

// netnsAt returns whether one namespace exists.
func (f *chunkFacts) netnsAt(path string, changed time.Time) policy.Fact {
	n := &f.k.netns
	fact := policy.Fact{Origin: path}
	place, ok := n.place(path)
	if !ok {
		if isProc(path) && f.startedSince(path, changed) {
			fact.Truth = policy.No // the process, and its namespace with it
			return fact
		}
		return f.elsewhere[path].Fact
	}
	if _, there := n.have[place]; there {
		fact.Truth, fact.Detail = policy.Yes, "the network namespace "+clean.Name(path)+" exists"
		return fact
	}
	if n.err != nil {
		fact.Detail = n.err.Error()
		return fact
	}
	fact.Truth = policy.No
	return fact
}

// startedSince reports whether the process of /proc/PID/ns/net is younger than the file, by the
// margin: it has the PID of one that has ended.
func (f *chunkFacts) startedSince(path string, changed time.Time) bool {
	started := f.elsewhere[path].started
	return !started.IsZero() && !changed.IsZero() && started.After(changed.Add(netnsMargin))
}

func isProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

// elsewhereFact is the fact of one namespace outside of NetnsDirs.
type elsewhereFact struct {
	policy.Fact

	started time.Time // of a process's namespace: when that was started, zero where it is not known
}

// findElsewhere finds the namespaces outside of NetnsDirs: dockershim and cri-dockerd
// use /proc/PID/ns/net, Docker and Podman directories of their own in /run. Other paths
// are not opened: a path from a file must not lead to a file system that hangs.
func (f *chunkFacts) findElsewhere(ctx context.Context) {
	f.elsewhere = map[string]elsewhereFact{}
	var ask []string
	for id, o := range f.owners {
		if f.k.runtime.listed(id) {
			continue
		}
		for _, path := range o.netns {
			if _, ok := f.k.netns.place(path); ok {
				continue
			}
			if _, known := f.elsewhere[path]; known {
				continue
			}
			detail := "its network namespace is at " + clean.Name(path) + ", where it is not looked for"
			f.elsewhere[path] = elsewhereFact{Fact: policy.Fact{Origin: path, Detail: detail}}
			if filepath.Clean(path) == path && (isProc(path) || strings.HasPrefix(path, "/run/") || strings.HasPrefix(path, "/var/run/")) {
				ask = append(ask, path)
			}
		}
	}
	if len(ask) == 0 {
		return
	}
	r := f.s.r
	facts, err := bounded.Do(ctx, r.Guard, "namespaces elsewhere", func() map[string]elsewhereFact { return f.statNamespaces(ask) })
	for _, path := range ask {
		if err != nil {
			facts = map[string]elsewhereFact{path: {Fact: policy.Fact{Origin: path, Detail: err.Error()}}}
		}
		f.elsewhere[path] = facts[path]
	}
}

func (f *chunkFacts) statNamespaces(paths []string) map[string]elsewhereFact {
	r := f.s.r
	proc, err := procfs.Open(r.ProcDir)
	if err != nil {
		proc = -1
	}
	defer beneath.Close(proc)
	facts := make(map[string]elsewhereFact, len(paths))
	for _, path := range paths {
		at := path
		if isProc(path) {
			at = r.ProcDir + strings.TrimPrefix(path, "/proc")
		}
		fact := elsewhereFact{Fact: policy.Fact{Truth: policy.Yes, Origin: path, Detail: "the network namespace " + clean.Name(path) + " exists"}}
		switch _, err := beneath.StatName(unix.AT_FDCWD, at); {
		case beneath.Gone(err), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOTDIR):
			fact.Truth, fact.Detail = policy.No, ""
		case err != nil:
			fact.Truth, fact.Detail = policy.Unknown, beneath.PathError("statx", path, err).Error()
		case f.reused(proc, path):
			fact.Truth, fact.Detail = policy.No, ""
		default:
			fact.started = f.startOf(path)
		}
		facts[path] = fact
	}
	return facts
}

// unclaimed is a namespace in NetnsDirs without a known owner.
type unclaimed struct {
	place string
	since time.Time // since when it has existed, at the latest
	// addresses are all of its addresses, nil where they could not be read.
	addresses map[netip.Addr]bool
}

// findUnclaimed finds the namespaces that may belong to a container whose files have none,
// the oldest first.
func (f *chunkFacts) findUnclaimed() {
	f.unclaimed = f.unclaimed[:0]
	for place, since := range f.k.netns.have {
		if !f.s.claims[place] {
			f.unclaimed = append(f.unclaimed, unclaimed{place: place, since: since})
		}
	}
	slices.SortFunc(f.unclaimed, func(a, b unclaimed) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.place, b.place))
	})
}

// mayBeIn returns the first namespace that may be that of the file's container, "" where there is none.
// One that was made long after the file is another's; so is, for an address, one that does not
// have it.
func (f *chunkFacts) mayBeIn(file *cni.File) string {
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
