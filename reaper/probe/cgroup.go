package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// defaultCgroupRoot is where systemd, and everybody else, mounts the cgroup file systems.
const defaultCgroupRoot = "/sys/fs/cgroup"

// cgroups are the pods' cgroups in all hierarchies.
type cgroups struct {
	pods map[parsers.PodUID]string   // where each was found first
	all  map[parsers.PodUID][]string // in every hierarchy
	idle map[parsers.PodUID]bool     // those that are known to have no process
	busy map[parsers.PodUID]bool     // those that are known to have one
	kube string                      // the first kubepods hierarchy
	err  error
	// foreign says why the hierarchy may not be that of the running kubelet's pods.
	foreign string
}

// fact: a pod's cgroup is a sign of life whether a process is in it or not. The kubelet
// makes it before the pod's directory and removes it itself.
func (c *cgroups) fact(uid parsers.PodUID, root string) policy.Fact {
	if path, ok := c.pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: root, Detail: "the cgroup " + clean.Name(path) + " exists"}
	}
	switch {
	case c.err != nil:
		return policy.Fact{Origin: root, Detail: c.err.Error()}
	case c.kube == "":
		// cgroupsPerQOS: false, the wrong root, or no kubelet ever: no cgroup proves nothing.
		return policy.Fact{Origin: root, Detail: "no kubepods hierarchy is there"}
	case c.foreign != "":
		return policy.Fact{Origin: root, Detail: c.foreign}
	}
	return policy.Fact{Truth: policy.No, Origin: root}
}

// compare asks whether the pods that the runtime runs have their cgroups here. If none has,
// the hierarchy is not that of the running kubelet: another node's, what a kubelet with
// other settings left (cgroupsPerQOS: false makes no pod's cgroup at all), or --cgroup-root
// is wrong; and a living pod's cgroup would be looked for in vain. One is enough, since the
// runtime and the cgroups are asked at the same time, and pods come and go.
//
// Where the runtime runs no pod nothing can be compared: then the usual place is believed,
// and another one is not.
func (c *cgroups) compare(ready map[parsers.PodUID]bool, root string) {
	for uid := range ready {
		if _, ok := c.pods[uid]; ok {
			return
		}
	}
	switch {
	case len(ready) > 0:
		c.foreign = fmt.Sprintf("of %d pods that the runtime runs none has a cgroup there: it is not where the kubelet that runs has them; "+
			"see --cgroup-root, and cgroupsPerQOS in the kubelet's configuration", len(ready))
	case root != defaultCgroupRoot:
		c.foreign = "the runtime runs no pod that could show whether this is where the kubelet's pods have their cgroups; leave --cgroup-root out"
	}
}

func (p *Probe) cgroups(ctx context.Context) *cgroups {
	c, err := bounded.Do(ctx, p.guard, "cgroups", func() *cgroups { return p.readCgroups(ctx) })
	if err != nil {
		return &cgroups{err: fmt.Errorf("cannot read the cgroups: %w", err)}
	}
	return c
}

// deepestCgroup bounds the walk; real hierarchies are less than ten deep.
const deepestCgroup = 32

// readCgroups walks the directories below the cgroup root: the unified hierarchy, or all
// those of version 1 below it. Each is a mount of its own, so mounts are crossed here,
// symlinks (cpu to cpu,cpuacct) are not followed.
func (p *Probe) readCgroups(ctx context.Context) *cgroups {
	c := &cgroups{pods: map[parsers.PodUID]string{}, all: map[parsers.PodUID][]string{}}
	c.err = walkCgroups(ctx, p.cfg.CgroupRoot, func(path, name string) (below bool) {
		// Not below a pod's cgroup: pods there belong to a kubelet inside that pod, with
		// another root directory.
		if uid, ok := parsers.PodOfCgroup(name); ok {
			if _, known := c.pods[uid]; !known {
				c.pods[uid] = filepath.Join(path, name)
			}
			c.all[uid] = append(c.all[uid], filepath.Join(path, name))
			return false
		}
		if c.kube == "" && isKubepods(name) {
			c.kube = filepath.Join(path, name)
		}
		return true
	})
	return c
}

// cgroupWalk is one walk over the cgroups.
type cgroupWalk struct {
	visit func(path, name string) (below bool)
	buf   []byte
	err   error // the first
}

// walkCgroups gives every cgroup to visit, which says whether to go below it.
func walkCgroups(ctx context.Context, root string, visit func(path, name string) (below bool)) error {
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return fmt.Errorf("cannot read the cgroups: %w", beneath.PathError("open", root, err))
	}
	c := cgroupWalk{visit: visit, buf: make([]byte, 32<<10)}
	c.walk(ctx, fd, root, 0)
	return c.err
}

// walk takes fd over.
func (c *cgroupWalk) walk(ctx context.Context, fd int, path string, depth int) {
	defer beneath.Close(fd)
	if err := ctx.Err(); err != nil {
		c.fail(path, err)
		return
	}
	if depth > deepestCgroup {
		c.fail(path, errors.New("too deep"))
		return
	}
	var below []string
	err := beneath.EachName(fd, c.buf, func(d beneath.Entry) bool {
		if (d.Kind == unix.DT_DIR || d.Kind == unix.DT_UNKNOWN) && c.visit(path, d.Name) {
			below = append(below, d.Name)
		}
		return true
	})
	c.fail(path, err)
	for _, name := range below {
		next, err := beneath.Retry(func() (int, error) {
			return unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
				c.fail(filepath.Join(path, name), err)
			}
			continue
		}
		c.walk(ctx, next, filepath.Join(path, name), depth+1)
	}
}

// fail keeps the first error. A cgroup that is removed meanwhile gives ENOENT on open and
// ENODEV on read, and is gone.
func (c *cgroupWalk) fail(path string, err error) {
	if c.err == nil && err != nil && !beneath.Gone(err) && !errors.Is(err, unix.ENODEV) {
		c.err = fmt.Errorf("cannot read the cgroups: %w", beneath.PathError("read", path, err))
	}
}

func isKubepods(name string) bool {
	name = strings.TrimSuffix(name, ".slice")
	return name == "kubepods" || strings.HasSuffix(name, "-kubepods")
}
