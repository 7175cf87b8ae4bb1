package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// netnsSet are the namespaces that are bound in NetnsDirs.
type netnsSet struct {
	// dirs tells for each directory as it was configured which it is: /var/run/netns usually
	// is /run/netns.
	dirs map[string]string
	have map[string]time.Time // since when, at the latest; zero where that is not known
	err  error
}

const mostNetns = 100_000

func (p *Probe) netnsSet(ctx context.Context) netnsSet {
	n, err := guarded(ctx, &p.guard, "network namespaces", p.patience, func() netnsSet {
		n := netnsSet{dirs: map[string]string{}, have: map[string]time.Time{}}
		seen := map[[2]uint64]string{}
		for _, dir := range p.cfg.NetnsDirs {
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
	fd, err := retry(func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		n.fail(dir, err)
		return
	}
	defer closeFD(fd)
	st, err := statHandle(fd)
	if err != nil {
		n.fail(dir, err)
		return
	}
	id := [2]uint64{devOf(&st), st.Ino}
	if first, ok := seen[id]; ok {
		n.dirs[dir] = first
		return
	}
	seen[id] = dir
	entries, err := listDir(fd, mostNetns)
	n.fail(dir, err)
	for _, e := range entries {
		if st, err := statName(fd, e.name); !gone(err) {
			n.have[dir+"/"+e.name] = boundSince(&st, err)
		}
	}
}

// boundSince is the earliest of what is told of a namespace's time. Its inode is made when it
// is bound, at the latest, and kept as long as it is.
func boundSince(st *unix.Statx_t, err error) time.Time {
	if err != nil {
		return time.Time{}
	}
	first := min(nanos(st.Ctime), nanos(st.Mtime))
	if st.Mask&unix.STATX_BTIME != 0 {
		first = min(first, nanos(st.Btime))
	}
	return time.Unix(0, first)
}

func (n *netnsSet) fail(dir string, err error) {
	if err != nil && n.err == nil && !gone(err) {
		n.err = fmt.Errorf("cannot read the network namespaces: %w", pathError("read", dir, err))
	}
}

// place returns the path as it stands in have, and false where it lies elsewhere.
func (n *netnsSet) place(path string) (string, bool) {
	path = filepath.Clean(path)
	dir, ok := n.dirs[filepath.Dir(path)]
	return dir + "/" + filepath.Base(path), ok
}

// netnsMargin is by how much a namespace must be younger than a file to be another
// sandbox's. The runtime makes the namespace before it calls the plugin, so any would do
// while the clock only goes forward; an hour is for clocks that are set.
const netnsMargin = time.Hour

// netns says whether the container's network namespace is there.
func (f *facing) netns(o *cniOwner, changed time.Time) policy.Fact {
	n := &f.k.netns
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
	fact := policy.Fact{Origin: strings.Join(f.s.p.cfg.NetnsDirs, ", ")}
	switch {
	case n.err != nil:
		fact.Detail = n.err.Error()
	case f.unclaimed == "":
		fact.Truth = policy.No
	case !changed.IsZero() && f.since.After(changed.Add(netnsMargin)):
		fact.Truth = policy.No
	default:
		fact.Detail = "no cache file tells its network namespace, and " + clean(f.unclaimed) + " is nobody's that is known"
	}
	return fact
}

// netnsAt says whether one namespace is there.
func (f *facing) netnsAt(path string, changed time.Time) policy.Fact {
	n := &f.k.netns
	fact := policy.Fact{Origin: path}
	place, ok := n.place(path)
	if !ok {
		if isProc(path) && f.beforeBoot(changed) {
			fact.Truth = policy.No // the process, and its namespace with it
			return fact
		}
		return f.elsewhere[path]
	}
	if _, there := n.have[place]; there {
		fact.Truth, fact.Detail = policy.Yes, "the network namespace "+clean(path)+" exists"
		return fact
	}
	if n.err != nil {
		fact.Detail = n.err.Error()
		return fact
	}
	fact.Truth = policy.No
	return fact
}

// beforeBoot says that a file is older than this boot, by the margin.
func (f *facing) beforeBoot(changed time.Time) bool {
	return f.at.BootID != "" && !changed.IsZero() && changed.Add(netnsMargin).Before(f.at.Wall.Add(-f.at.Boot))
}

func isProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

// findElsewhere asks about the namespaces that lie elsewhere: dockershim and cri-dockerd
// name /proc/PID/ns/net, Docker and Podman directories of their own in /run. Other places
// are not asked: a path from a file must not lead to a file system that hangs.
func (f *facing) findElsewhere(ctx context.Context) {
	f.elsewhere = map[string]policy.Fact{}
	var ask []string
	for id, o := range f.owners {
		if _, listed := f.k.runtime.ids[id]; listed {
			continue
		}
		for _, path := range o.netns {
			if _, ok := f.k.netns.place(path); ok {
				continue
			}
			if _, known := f.elsewhere[path]; known {
				continue
			}
			f.elsewhere[path] = policy.Fact{Origin: path, Detail: "its network namespace is at " + clean(path) + ", where it is not looked for"}
			if filepath.Clean(path) == path && (isProc(path) || strings.HasPrefix(path, "/run/") || strings.HasPrefix(path, "/var/run/")) {
				ask = append(ask, path)
			}
		}
	}
	if len(ask) == 0 {
		return
	}
	p := f.s.p
	facts, err := guarded(ctx, &p.guard, "namespaces elsewhere", p.patience, func() map[string]policy.Fact { return p.statNamespaces(ask) })
	for _, path := range ask {
		if err != nil {
			facts = map[string]policy.Fact{path: {Origin: path, Detail: err.Error()}}
		}
		f.elsewhere[path] = facts[path]
	}
}

func (p *Probe) statNamespaces(paths []string) map[string]policy.Fact {
	facts := make(map[string]policy.Fact, len(paths))
	for _, path := range paths {
		at := path
		if isProc(path) {
			at = p.cfg.ProcDir + strings.TrimPrefix(path, "/proc")
		}
		fact := policy.Fact{Truth: policy.Yes, Origin: path, Detail: "the network namespace " + clean(path) + " exists"}
		switch _, err := statName(unix.AT_FDCWD, at); {
		case gone(err), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOTDIR):
			fact.Truth, fact.Detail = policy.No, ""
		case err != nil:
			fact.Truth, fact.Detail = policy.Unknown, pathError("statx", path, err).Error()
		}
		facts[path] = fact
	}
	return facts
}

// findUnclaimed finds the oldest namespace that may belong to a container whose files tell
// none.
func (f *facing) findUnclaimed() {
	for place, since := range f.k.netns.have {
		if !f.s.claims[place] && (f.unclaimed == "" || since.Before(f.since)) {
			f.unclaimed, f.since = place, since
		}
	}
}
