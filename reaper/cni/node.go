package cni

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// nodeRoot is the node's root directory. Below it lie /run, the network namespaces and the stores of other engines, which a
// container of a DaemonSet has not, or has another of.
type nodeRoot struct {
	dir     *fdpath.Dir
	parents map[string]parent // of network namespaces
}

type parent struct {
	dir *fdpath.Dir
	err error
}

// rootOf returns the path of the node's root directory. The kubelet's is that of the runtime, too, where the kubelet runs in a
// container (kind) or PID 1 is of another node, and it can be read where PID 1 is closed to root.
func (s *Sweeper) rootOf(n judge.Node) string {
	switch {
	case s.cfg.Root != "":
		return s.cfg.Root
	case n.KubeletKnown.Truth == judge.Yes:
		return fmt.Sprintf("/proc/%d/root", n.Kubelet.PID)
	}
	return "/proc/1/root"
}

func (s *Sweeper) openRoot(path string) (*nodeRoot, error) {
	dir, err := s.open.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the node's root directory: %w", err)
	}
	return &nodeRoot{dir: dir, parents: map[string]parent{}}, nil
}

func (r *nodeRoot) close() {
	for _, p := range r.parents {
		p.dir.Close()
	}
	r.dir.Close()
}

// openDir opens a directory by its path on the node. It follows links as a process of the node does.
func (r *nodeRoot) openDir(open *fdpath.Opener, name string) (*fdpath.Dir, error) {
	if open.Fallback() != nil {
		dir, err := r.walk(path.Clean("/"+name), mostLinks)
		if err != nil {
			return nil, fdpath.PathError("open", name, err)
		}
		return dir, nil
	}
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := fdpath.Retry(func() (int, error) { return unix.Openat2(r.dir.FD(), name, &how) })
	if err != nil {
		return nil, fdpath.PathError("openat2", name, err)
	}
	return open.At(fd), nil
}

// mostLinks bounds the links of one path without openat2.
const mostLinks = 8

// walk is openDir without openat2, one name at a time. Most systems have /var/run as a link, where the runtimes' network
// namespaces are.
func (r *nodeRoot) walk(name string, links int) (*fdpath.Dir, error) {
	dir, err := r.dir.Cross(".")
	at, rest := "/", strings.TrimPrefix(name, "/")
	for err == nil && rest != "" {
		step, after, _ := strings.Cut(rest, "/")
		next, e := dir.Cross(step)
		var target [unix.PathMax]byte
		n := 0
		if fdpath.Is(e, unix.ENOTDIR, unix.ELOOP) && links > 0 {
			n, _ = unix.Readlinkat(dir.FD(), step, target[:])
		}
		dir.Close()
		if n > 0 {
			to := string(target[:n])
			if !path.IsAbs(to) {
				to = path.Join(at, to)
			}
			return r.walk(path.Join("/", to, after), links-1)
		}
		dir, err, at, rest = next, e, path.Join(at, step), after
	}
	return dir, err
}

// mostParents bounds the directories of network namespaces that are held open: usually /var/run/netns alone.
const mostParents = 16

// netns reports whether a network namespace is gone, or is there; neither if that is not known. A name in /proc proves
// nothing by being there: another process may have the PID.
func (r *nodeRoot) netns(open *fdpath.Opener, name string) (gone, there bool) {
	process := strings.HasPrefix(name, "/proc/")
	if process { // dockershim and cri-dockerd: /proc/PID/ns/net
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, "/proc/"), "/")
		name = "/proc/" + pid
	}
	if path.Clean(name) != name || strings.Contains(name, "\x00") {
		return false, false
	}
	in, base := path.Split(name)
	p, ok := r.parents[in]
	if !ok {
		if len(r.parents) >= mostParents {
			return false, false
		}
		p.dir, p.err = r.openDir(open, in)
		r.parents[in] = p
	}
	if p.err != nil {
		return fdpath.Gone(p.err), false
	}
	there, err := p.dir.Exists(base)
	return err == nil && !there, there && !process
}

// bootMark returns the time before which a file is older than this boot: the birth of /run, a tmpfs that is made at boot. Before
// Linux 5.18 or so a tmpfs has no birth, and the mark is the time of the boot by today's clock, or the oldest change in /run:
// a clock that was set forward since, or a virtual machine that was suspended, makes files of this boot older than the first.
// The zero time is no mark.
func (r *nodeRoot) bootMark(open *fdpath.Opener, now judge.Instant) time.Time {
	run, err := r.openDir(open, "/run")
	if err != nil {
		return time.Time{}
	}
	defer run.Close()
	st, err := run.Stat()
	if err != nil {
		return time.Time{}
	}
	mark := time.Unix(0, fdpath.Nanos(st.Btime))
	if st.Mask&unix.STATX_BTIME == 0 {
		mark, err = oldestChange(run, bootTime(now))
	}
	if err != nil || mark.After(now.Wall) { // the clock was set back since
		return time.Time{}
	}
	return mark
}

// oldestChange returns the oldest change time of the entries, or the time if none is older. What is mounted there may be older
// than /run.
func oldestChange(run *fdpath.Dir, oldest time.Time) (time.Time, error) {
	err := run.Each(func(e fdpath.Entry) error {
		handle, err := run.Handle(e.Name)
		if fdpath.Gone(err) || errors.Is(err, unix.EXDEV) {
			return nil
		}
		if err != nil {
			return err
		}
		defer handle.Close()
		st, err := handle.Stat()
		if at := time.Unix(0, fdpath.Nanos(st.Ctime)); err == nil && at.Before(oldest) {
			oldest = at
		}
		return err
	})
	return oldest, err
}

// bootTime returns the time of the boot by today's clock.
func bootTime(now judge.Instant) time.Time { return now.Wall.Add(-now.Boot) }

// stores have an entry for each container, by its whole ID, of engines that may use CNI without the kubelet, and of
// containerd, whose running containers show even if its database is lost. "*" stands for every name.
var stores = []string{
	"/var/lib/containers/storage/*-containers", // Podman's, and CRI-O's
	"/var/lib/nerdctl/*/containers/*",
	"/run/containerd/io.containerd.runtime.v2.task/*",
	"/run/k3s/containerd/io.containerd.runtime.v2.task/*",
	"/run/k0s/containerd/io.containerd.runtime.v2.task/*",
	"/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/*",
}

// mostStored bounds the entries of the stores.
const mostStored = 100_000

// inStores returns the IDs in the stores.
func (r *nodeRoot) inStores(open *fdpath.Opener) (map[sandboxID]bool, error) {
	ids := map[sandboxID]bool{}
	for _, store := range stores {
		base, pattern, _ := strings.Cut(store, "*")
		dir, err := r.openDir(open, base)
		if fdpath.Gone(err) {
			continue
		}
		if err != nil {
			return ids, err
		}
		err = listStore(dir, "*"+pattern, ids)
		dir.Close()
		if err != nil {
			return ids, fmt.Errorf("cannot read the containers in %s: %w", store, err)
		}
	}
	return ids, nil
}

// listStore adds the IDs in the directories that match the pattern, one component at a time.
func listStore(dir *fdpath.Dir, pattern string, ids map[sandboxID]bool) error {
	head, rest, _ := strings.Cut(pattern, "/")
	return dir.Each(func(e fdpath.Entry) error {
		if pattern == "" {
			if id, ok := parseID(e.Name); ok {
				ids[id] = true
			}
			if len(ids) > mostStored {
				return fdpath.ErrTooMany
			}
			return nil
		}
		if ok, _ := path.Match(head, e.Name); !ok || e.Kind != unix.DT_DIR && e.Kind != unix.DT_UNKNOWN {
			return nil
		}
		below, err := dir.Cross(e.Name)
		if errors.Is(err, unix.ENOTDIR) || fdpath.Gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer below.Close()
		return listStore(below, rest, ids)
	})
}
