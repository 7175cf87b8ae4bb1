package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// podCgroups are the cgroups of pods in all hierarchies.
type podCgroups struct {
	pods map[parsers.PodUID]string // the first cgroup of each
	kube string                    // the first kubepods hierarchy
}

// fact reports whether the pod has a cgroup, also an empty one: the kubelet makes it before anything else of a pod that
// starts, and destroys it for a pod that it reports.
func (c *podCgroups) fact(uid parsers.PodUID, root string) judge.Fact {
	f := judge.Fact{Truth: judge.No, Source: root}
	if path, ok := c.pods[uid]; ok {
		f.Truth, f.Alive, f.Detail = judge.Yes, true, "the cgroup "+bounded.Name(path)+" exists"
	} else if c.kube == "" {
		f.Truth, f.Detail = judge.Unknown, "no kubepods hierarchy was found there" // cgroupsPerQOS: false, or another mount point
	}
	return f
}

// readCgroups walks the unified hierarchy, or those of version 1. Each is a mount of its own, so the walk crosses mounts.
func (s *Scanner) readCgroups(ctx context.Context) (podCgroups, error) {
	w := cgroupWalk{podCgroups: podCgroups{pods: map[parsers.PodUID]string{}}}
	top, err := s.open.Open(s.cfg.Cgroups)
	if err != nil {
		return w.podCgroups, err
	}
	defer top.Close()
	root, err := top.Cross(".")
	if err != nil {
		return w.podCgroups, fdpath.PathError("open", s.cfg.Cgroups, err)
	}
	defer root.Close()
	err = w.walk(ctx, root, s.cfg.Cgroups, 0)
	return w.podCgroups, err
}

type cgroupWalk struct{ podCgroups }

// Limits of the walk. Real hierarchies are less than ten deep, and a node has some thousand cgroups.
const (
	deepestCgroup = 32
	mostCgroups   = 100_000
)

func (w *cgroupWalk) walk(ctx context.Context, dir *fdpath.Dir, path string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.List(mostCgroups)
	if err != nil {
		return ignoreRemoved(path, err)
	}
	for _, e := range entries {
		if e.Kind != unix.DT_DIR && e.Kind != unix.DT_UNKNOWN {
			continue
		}
		at := filepath.Join(path, e.Name)
		if below, err := w.visit(dir, e.Name, at); err != nil {
			return err
		} else if !below {
			continue
		}
		if depth == deepestCgroup {
			return fdpath.PathError("read", at, errors.New("the cgroups are too deep"))
		}
		next, err := dir.Cross(e.Name)
		if fdpath.Is(err, unix.ENOTDIR, unix.ELOOP) { // a link: cpu leads to cpu,cpuacct
			continue
		}
		if err != nil {
			if err = ignoreRemoved(at, err); err != nil {
				return err
			}
			continue
		}
		err = w.walk(ctx, next, at, depth+1)
		if next.Close(); err != nil {
			return err
		}
	}
	return nil
}

// visit notes one cgroup, and reports whether there may be others below it.
func (w *cgroupWalk) visit(dir *fdpath.Dir, name, path string) (below bool, _ error) {
	st, err := dir.StatName(name)
	switch {
	case err != nil:
		return false, ignoreRemoved(path, err)
	case !fdpath.IsDir(&st):
		return false, nil
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return false, nil // a user with a delegated cgroup chooses the names of those below it (Delegate=)
	}
	// A pod below a pod's cgroup is of a kubelet inside that pod, with another root directory.
	if uid, ok := parsers.PodOfCgroup(name); ok {
		if w.pods[uid] == "" {
			w.pods[uid] = path
		}
		return false, nil
	}
	if base := strings.TrimSuffix(name, ".slice"); w.kube == "" && (base == "kubepods" || strings.HasSuffix(base, "-kubepods")) {
		w.kube = path
	}
	return st.Nlink != 2, nil // kernfs counts subdirectories, so a leaf has 2 (kernfs_refresh_inode)
}

// ignoreRemoved ignores that a cgroup was removed: ENOENT on open, ENODEV on read.
func ignoreRemoved(path string, err error) error {
	if err == nil || fdpath.Gone(err) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fdpath.PathError("read", path, err)
}
