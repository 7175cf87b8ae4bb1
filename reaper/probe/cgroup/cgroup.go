package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// DefaultRoot is where systemd mounts the cgroup file systems.
const DefaultRoot = "/sys/fs/cgroup"

// Reader reads the cgroup file systems.
type Reader struct {
	Root  string // where they are mounted
	Guard *bounded.Guard
}

// Answer has the pods' cgroups in all hierarchies.
type Answer struct {
	Pods map[parsers.PodUID]string   // the first cgroup of each
	all  map[parsers.PodUID][]string // its cgroups in every hierarchy
	Idle map[parsers.PodUID]bool     // pods that are known to have no process
	Busy map[parsers.PodUID]bool     // pods that are known to have one
	kube string                      // the first kubepods hierarchy
	Err  error
	// foreign is why the hierarchy may not be that of the running kubelet's pods.
	foreign string
}

// Fact reports whether the pod has a cgroup. That is a sign of life also without a process: the kubelet makes it before
// the pod's directory and removes it itself.
func (c *Answer) Fact(uid parsers.PodUID, root string) policy.Fact {
	if path, ok := c.Pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: root, Detail: "the cgroup " + clean.Name(path) + " exists"}
	}
	switch {
	case c.Err != nil:
		return policy.Fact{Origin: root, Detail: c.Err.Error()}
	case c.kube == "":
		// With cgroupsPerQOS: false, a wrong root or no kubelet, a missing cgroup proves nothing.
		return policy.Fact{Origin: root, Detail: "no kubepods hierarchy is there"}
	case c.foreign != "":
		return policy.Fact{Origin: root, Detail: c.foreign}
	}
	return policy.Fact{Truth: policy.No, Origin: root}
}

// Compare makes the hierarchy doubtful if no pod that the runtime runs has its cgroup there.
func (c *Answer) Compare(ready map[parsers.PodUID]bool, root string) {
	found := false
	for uid := range ready {
		found = found || c.Pods[uid] != ""
	}
	c.foreign = reading.ForeignCgroups(len(ready), found, root == DefaultRoot)
}

// Pods reads the pods' cgroups.
func (r *Reader) Pods(ctx context.Context) *Answer {
	c, err := bounded.Do(ctx, r.Guard, "cgroups", func() *Answer { return r.readPods(ctx) })
	if err != nil {
		return &Answer{Err: fmt.Errorf("cannot read the cgroups: %w", err)}
	}
	return c
}

// deepest bounds the walk; real hierarchies are less than ten deep.
const deepest = 32

// readPods walks the unified hierarchy, or those of version 1. Each is a mount of its own, so
// the walk crosses mounts. It does not follow symlinks (cpu to cpu,cpuacct).
func (r *Reader) readPods(ctx context.Context) *Answer {
	c := &Answer{Pods: map[parsers.PodUID]string{}, all: map[parsers.PodUID][]string{}}
	c.Err = walkCgroups(ctx, r.Root, func(path, name string) (below bool) {
		// A user with a delegated cgroup chooses the names of those below it.
		if st, err := beneath.StatName(unix.AT_FDCWD, filepath.Join(path, name)); err == nil && procfs.MadeByOthers(&st) {
			return false
		}
		// A pod below a pod's cgroup is of a kubelet inside that pod, with another root directory.
		if uid, ok := parsers.PodOfCgroup(name); ok {
			if _, known := c.Pods[uid]; !known {
				c.Pods[uid] = filepath.Join(path, name)
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

type cgroupWalk struct {
	visit func(path, name string) (below bool)
	buf   []byte
	err   error // the first
}

// walkCgroups calls visit for every cgroup, and descends if that returns true.
func walkCgroups(ctx context.Context, root string, visit func(path, name string) (below bool)) error {
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, root, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("cannot read the cgroups: %w", beneath.PathError("open", root, err))
	}
	c := cgroupWalk{visit: visit, buf: make([]byte, 32<<10)}
	c.walk(ctx, fd, root, 0)
	return c.err
}

// walk closes fd.
func (c *cgroupWalk) walk(ctx context.Context, fd int, path string, depth int) {
	defer beneath.Close(fd)
	if err := ctx.Err(); err != nil {
		c.fail(path, err)
		return
	}
	if depth > deepest {
		if st, err := beneath.Stat(fd); err != nil || !procfs.MadeByOthers(&st) {
			c.fail(path, errors.New("too deep"))
		}
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
		next, err := beneath.OpenTrusted(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
				c.fail(filepath.Join(path, name), err)
			}
			continue
		}
		c.walk(ctx, next, filepath.Join(path, name), depth+1)
	}
}

// fail keeps the first error. ENOENT on open and ENODEV on read mean that the cgroup was removed
// meanwhile.
func (c *cgroupWalk) fail(path string, err error) {
	if c.err == nil && err != nil && !beneath.Gone(err) && !errors.Is(err, unix.ENODEV) {
		c.err = fmt.Errorf("cannot read the cgroups: %w", beneath.PathError("read", path, err))
	}
}

func isKubepods(name string) bool {
	name = strings.TrimSuffix(name, ".slice")
	return name == "kubepods" || strings.HasSuffix(name, "-kubepods")
}

// IDs has the container IDs in the names of cgroups: ID, cri-containerd-ID.scope, crio-ID.scope,
// docker-ID.scope, libpod-ID.scope and so on.
type IDs struct {
	Found map[string]string // the first cgroup of each ID
	Kube  bool              // there is a kubepods hierarchy
	Err   error
}

// ContainerIDs reads the container IDs of all cgroups.
func (r *Reader) ContainerIDs(ctx context.Context) IDs {
	c, err := bounded.Do(ctx, r.Guard, "cgroup IDs", func() IDs {
		c := IDs{Found: map[string]string{}}
		c.Err = walkCgroups(ctx, r.Root, func(path, name string) bool {
			c.Kube = c.Kube || isKubepods(name)
			parsers.EachContainerID(name, func(id string) {
				if _, known := c.Found[id]; !known {
					c.Found[id] = filepath.Join(path, name)
				}
			})
			return true
		})
		return c
	})
	if err != nil {
		return IDs{Err: fmt.Errorf("cannot read the cgroups: %w", err)}
	}
	return c
}

// FindIdle sets Idle and Busy of the pods of w, except those in ready, which the runtime runs. A pod
// whose cgroups cannot be read is neither.
func (r *Reader) FindIdle(ctx context.Context, c *Answer, w, ready map[parsers.PodUID]bool) {
	unknown := map[parsers.PodUID][]string{}
	for uid := range w {
		if paths := c.all[uid]; len(paths) > 0 && !ready[uid] {
			unknown[uid] = paths
		}
	}
	if len(unknown) == 0 || c.Err != nil {
		return
	}
	type found struct{ idle, busy map[parsers.PodUID]bool }
	all, err := bounded.Do(ctx, r.Guard, "cgroups", func() found {
		f := found{map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}}
		for uid, paths := range unknown {
			f.idle[uid], f.busy[uid] = processesIn(ctx, paths)
		}
		return f
	})
	if err == nil {
		c.Idle, c.Busy = all.idle, all.busy
	}
}

// HasProcess reports whether a process is in one of the pod's cgroups.
func (c *Answer) HasProcess(ctx context.Context, uid parsers.PodUID) bool {
	if c.Busy[uid] {
		return true
	}
	_, busy := processesIn(ctx, c.all[uid])
	return busy
}

func processesIn(ctx context.Context, paths []string) (idle, busy bool) {
	idle = true
	for _, path := range paths {
		some, err := populated(ctx, path)
		if some && err == nil {
			return false, true
		}
		idle = idle && (err == nil || beneath.Gone(err))
	}
	return idle, false
}

// populated reports whether a process is in the cgroup or in one below it: version 2 has
// cgroup.events (cgroups(7)), version 1 a list in each cgroup.
func populated(ctx context.Context, path string) (bool, error) {
	if text, err := os.ReadFile(filepath.Join(path, "cgroup.events")); err == nil {
		if !bytes.Contains(text, []byte("populated ")) {
			return false, errors.New("cgroup.events does not show whether it is populated")
		}
		return !bytes.Contains(text, []byte("populated 0")), nil
	}
	some, err := hasProcess(path)
	if some || err != nil {
		return some, err
	}
	var first error
	err = walkCgroups(ctx, path, func(at, name string) (below bool) {
		has, err := hasProcess(filepath.Join(at, name))
		if err != nil && first == nil {
			first = err
		}
		some = some || has
		return !some && first == nil
	})
	return some, errors.Join(first, err)
}

// hasProcess reads one byte of cgroup.procs. A directory without this file is not a cgroup.
func hasProcess(path string) (bool, error) {
	f, err := os.Open(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		if _, stat := os.Lstat(path); stat == nil {
			return false, errors.New("not a cgroup: " + err.Error())
		}
		return false, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	n, err := f.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}
