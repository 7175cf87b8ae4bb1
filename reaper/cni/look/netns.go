package look

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
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
	// dirs maps each configured directory to the first one that is the same directory: /var/run/netns usually is
	// /run/netns.
	dirs map[string]string
	have map[string]namespace
	err  error
}

// namespace is a bound namespace. A zero field is unknown.
type namespace struct {
	id    nsID
	since time.Time // bound at this time or earlier
}

// nsID identifies a namespace while it exists, by the device and inode of its file (namespaces(7)).
type nsID struct{ dev, ino uint64 }

func nsIDOf(st *unix.Statx_t) nsID { return nsID{beneath.DevOf(st), st.Ino} }

const mostNetns = 100_000

func (r *Reader) netnsSet(ctx context.Context) netnsSet {
	n, err := bounded.Do(ctx, r.Guard, "network namespaces", func() netnsSet {
		n := netnsSet{dirs: map[string]string{}, have: map[string]namespace{}}
		seen := map[nsID]string{}
		for _, dir := range r.NetnsDirs {
			n.read(r, filepath.Clean(dir), seen)
		}
		return n
	})
	if err != nil {
		n.err = fmt.Errorf("cannot read the network namespaces: %w", err)
	}
	return n
}

func (n *netnsSet) read(r *Reader, dir string, seen map[nsID]string) {
	n.dirs[dir] = dir
	fd, err := r.openUsual(dir)
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
	id := nsIDOf(&st)
	if first, ok := seen[id]; ok {
		n.dirs[dir] = first
		return
	}
	seen[id] = dir
	entries, err := beneath.List(fd, mostNetns)
	n.fail(dir, err)
	for _, e := range entries {
		switch st, err := beneath.StatName(fd, e.Name); {
		case err == nil:
			n.have[dir+"/"+e.Name] = namespace{nsIDOf(&st), boundSince(&st)}
		case !beneath.Gone(err):
			n.have[dir+"/"+e.Name] = namespace{}
		}
	}
}

// boundSince returns the earliest time of a namespace's inode, which exists while the namespace is bound.
func boundSince(st *unix.Statx_t) time.Time {
	first := min(beneath.Nanos(st.Ctime), beneath.Nanos(st.Mtime))
	if st.Mask&unix.STATX_BTIME != 0 {
		first = min(first, beneath.Nanos(st.Btime))
	}
	return time.Unix(0, first)
}

func (n *netnsSet) fail(dir string, err error) {
	if err != nil && n.err == nil && !beneath.Gone(err) {
		n.err = fmt.Errorf("cannot read the network namespaces in %s: %w", clean.Name(dir), err)
	}
}

// place returns the key of path in have, and reports whether it is in one of dirs.
func (n *netnsSet) place(path string) (string, bool) {
	path = filepath.Clean(path)
	dir, ok := n.dirs[filepath.Dir(path)]
	return dir + "/" + filepath.Base(path), ok
}

// netnsOf returns the fact Netns: whether the network namespace of the file's container exists.
func (f *facts) netnsOf(ctx context.Context, o *owner, file *cni.File) policy.Fact {
	if len(o.netns) > 0 {
		fact := policy.Fact{Truth: policy.No, Origin: o.netns[0]}
		for _, path := range o.netns {
			switch got := f.netnsAt(ctx, path, file.Changed); got.Truth {
			case policy.Yes:
				return got
			case policy.Unknown:
				fact = got
			case policy.No:
			}
		}
		return fact
	}
	fact := policy.Fact{Truth: policy.No, Origin: strings.Join(f.s.r.NetnsDirs, ", ")}
	if f.netns.err != nil {
		fact.Truth, fact.Detail = policy.Unknown, f.netns.err.Error()
	} else if place := f.possibleNetns(file); place != "" {
		fact.Truth = policy.Unknown
		fact.Detail = "no cache file has its network namespace, and " + clean.Name(place) + " belongs to no known container: " +
			"see ip netns pids and ip -n NAME address with NAME " + clean.Name(filepath.Base(place)) + "; if it is left over, remove it with ip netns delete"
	}
	return fact
}

// netnsAt returns whether one namespace exists.
func (f *facts) netnsAt(ctx context.Context, path string, changed time.Time) policy.Fact {
	place, ok := f.netns.place(path)
	if !ok {
		e := f.outside(ctx, path)
		if !e.started.IsZero() && !changed.IsZero() && e.started.After(changed.Add(netnsMargin)) {
			return policy.Fact{Truth: policy.No, Origin: path} // another process has the PID
		}
		return e.Fact
	}
	if _, there := f.netns.have[place]; there {
		return exists(path)
	}
	if f.netns.err != nil {
		return policy.Fact{Origin: path, Detail: f.netns.err.Error()}
	}
	return policy.Fact{Truth: policy.No, Origin: path}
}

func exists(path string) policy.Fact {
	return policy.Fact{Truth: policy.Yes, Origin: path, Detail: "the network namespace " + clean.Name(path) + " exists"}
}

// elsewhere is a namespace outside NetnsDirs.
type elsewhere struct {
	policy.Fact

	started time.Time // start of the process in /proc/PID/ns/net, or zero
}

// outside returns a namespace outside NetnsDirs: dockershim and cri-dockerd use /proc/PID/ns/net, Docker and Podman
// their own directories in /run. Other paths are not opened, since they may lead to a file system that hangs.
func (f *facts) outside(ctx context.Context, path string) elsewhere {
	e, known := f.elsewhere[path]
	if known {
		return e
	}
	e.Fact = policy.Fact{Origin: path, Detail: "its network namespace is at " + clean.Name(path) + ", which is not read"}
	if filepath.Clean(path) == path && (isProc(path) || strings.HasPrefix(path, "/run/") || strings.HasPrefix(path, "/var/run/")) {
		r, at := f.s.r, f.at
		stat, err := bounded.Do(ctx, r.Guard, "namespaces elsewhere", func() elsewhere { return r.statNamespace(path, at) })
		if e = stat; err != nil {
			e.Fact = policy.Fact{Origin: path, Detail: err.Error()}
		}
	}
	f.elsewhere[path] = e
	return e
}

func isProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

func (r *Reader) statNamespace(path string, now policy.Instant) elsewhere {
	at := path
	if isProc(path) {
		at = r.ProcDir + strings.TrimPrefix(path, "/proc")
	}
	_, err := beneath.StatName(unix.AT_FDCWD, at)
	if beneath.Gone(err) && !isProc(path) {
		var fd int
		if fd, err = r.openOnNode(path, unix.O_PATH|unix.O_NOFOLLOW, err); err == nil {
			beneath.Close(fd)
		}
	}
	switch {
	case beneath.Gone(err), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOTDIR):
		return elsewhere{Fact: policy.Fact{Truth: policy.No, Origin: path}}
	case err != nil:
		return elsewhere{Fact: policy.Fact{Origin: path, Detail: beneath.PathError("statx", path, err).Error()}}
	}
	pid, ok := pidOf(path)
	if !ok {
		return elsewhere{Fact: exists(path)}
	}
	// No plugin is called for the node's own namespace, so a process in it has reused the PID.
	own, ownErr := r.netnsOfProcess(1)
	if id, err := r.netnsOfProcess(pid); err == nil && ownErr == nil && id == own {
		return elsewhere{Fact: policy.Fact{Truth: policy.No, Origin: path}}
	}
	return elsewhere{exists(path), r.startOf(pid, now)}
}

// pidOf returns the PID of /proc/PID/ns/net.
func pidOf(path string) (int, bool) {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(path, "/proc/"), "/ns/net")
	pid, err := strconv.Atoi(digits)
	return pid, ok && err == nil && path == fmt.Sprintf("/proc/%d/ns/net", pid)
}

func (r *Reader) netnsOfProcess(pid int) (nsID, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, fmt.Sprintf("%s/%d/ns/net", r.ProcDir, pid), unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	return nsIDOf(&st), err
}

// startOf returns when a process was started, by the current wall clock, or zero if that is unknown.
func (r *Reader) startOf(pid int, now policy.Instant) time.Time {
	st, err := procfs.StatOf(r.ProcDir, pid)
	if err != nil || now.BootID == "" {
		return time.Time{}
	}
	tick, err := procfs.ClockTick()
	if err != nil {
		return time.Time{}
	}
	return now.Wall.Add(time.Duration(st.Start)*tick - now.Boot)
}
