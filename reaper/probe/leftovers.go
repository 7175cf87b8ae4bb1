package probe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

const (
	mostNames = 100_000 // of one directory
	// netnsAge is the age of a leftover network namespace, since that of a starting sandbox has no process yet.
	netnsAge = 24 * time.Hour
)

// taskMounts are mounts of containerd, also that of k3s and RKE2: the root file system of a task, whose directory has the PID of
// its first process in init.pid, and containerd's temporary mounts.
var taskMounts = []struct {
	pattern string
	task    bool
}{
	{"/run/containerd/io.containerd.runtime.v2.task/k8s.io/*/rootfs", true},
	{"/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/*/rootfs", true},
	{"/var/lib/containerd/tmpmounts/*", false},
	{"/var/lib/rancher/k3s/agent/containerd/tmpmounts/*", false},
	{"/var/lib/rancher/rke2/agent/containerd/tmpmounts/*", false},
}

// Leftovers counts the residue of dead pods outside of the pods directory, for display. Other programs remove it.
func (p *Probe) Leftovers(ctx context.Context, l *policy.Look) []policy.Leftover {
	left := func(what, remover string, count func(v *policy.Leftover) (int, error)) policy.Leftover {
		v, err := bounded.Do(ctx, p.guard, what, func() policy.Leftover {
			v := policy.Leftover{What: what, Remover: remover}
			n, err := count(&v)
			if v.Count = &n; err != nil {
				v.Count, v.Bytes, v.Problem = nil, 0, err.Error()
			}
			return v
		})
		if err != nil {
			v = policy.Leftover{What: what, Remover: remover, Problem: err.Error()}
		}
		return v
	}
	cgroups := p.cgroups().Pods(ctx)
	emptied, cgroupErr := p.emptyCgroups(ctx, cgroups, l.Listed)
	owners := func() error {
		if l.InRuntime == nil && !p.cfg.Waive {
			return errors.New("the runtime did not list its sandboxes")
		}
		for _, e := range slices.Concat(l.Pods, l.RuntimeOnly) {
			ready := slices.ContainsFunc(e.Sandboxes, func(s policy.Sandbox) bool { return s.Ready })
			if ready && !cgroups.HasProcess(ctx, e.UID) {
				return errors.New("a sandbox without a process may have one: pod " + string(e.UID))
			}
		}
		return nil
	}
	return []policy.Leftover{
		left(policy.LeftNamespaces, "ip netns delete NAME", func(*policy.Leftover) (int, error) {
			names, err := p.idleNamespaces(ctx, l.At.Wall)
			if err == nil && len(names) > 0 {
				err = owners()
			}
			return len(names), err
		}),
		left(policy.LeftMounts, "containerd, when it restarts", func(*policy.Leftover) (int, error) { return p.leftMounts() }),
		left(policy.LeftCgroups, "the kubelet", func(*policy.Leftover) (int, error) { return emptied, cgroupErr }),
		left(policy.LeftCheckpoints, "you", p.checkpoints),
	}
}

// emptyCgroups counts the pods' cgroups without a process that neither the pods directory nor the runtime lists.
func (p *Probe) emptyCgroups(ctx context.Context, c *cgroup.Answer, listed map[parsers.PodUID]bool) (int, error) {
	w := parsers.PodSet{}
	for uid := range c.Pods {
		if !listed[uid] {
			w[uid] = true
		}
	}
	n := 0
	p.cgroups().FindIdle(ctx, c, w, nil)
	for uid := range w {
		switch {
		case c.Idle[uid]:
			n++
		case !c.Busy[uid] && c.Err == nil:
			return 0, errors.New("whether a process is in the cgroup of pod " + string(uid) + " is not known")
		}
	}
	return n, c.Err
}

// each calls do for each name of a directory below base, if that exists. It follows no symlink.
func (p *Probe) each(base, at string, do func(dir *beneath.Dir, e beneath.Entry) error) error {
	dir, err := p.open.Descend(base, strings.Split(at, "/")...)
	if err != nil {
		if beneath.Gone(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		return err
	}
	defer dir.Close()
	names, err := beneath.List(dir.FD(), mostNames)
	if err != nil {
		return beneath.PathError("list", at, err)
	}
	for _, e := range names {
		if err := do(dir, e); err != nil {
			return err
		}
	}
	return nil
}

// idleNamespaces returns the network namespaces below run/netns without a process that are older than a day. The inode of a
// namespace has the time at which it was mounted there.
func (p *Probe) idleNamespaces(ctx context.Context, now time.Time) (map[string]bool, error) {
	found := map[string]bool{}
	for _, at := range [...]string{"run/netns", "var/run/netns"} { // the second may be a link to the first
		err := p.each(p.cfg.below("/"), at, func(dir *beneath.Dir, e beneath.Entry) error {
			st, err := dir.StatName(e.Name)
			if beneath.Gone(err) {
				return nil
			}
			if err == nil && now.Sub(time.Unix(0, beneath.Nanos(st.Mtime))) >= netnsAge {
				found[fmt.Sprintf("net:[%d]", st.Ino)] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return found, nil
	}
	proc, err := procfs.Open(p.cfg.ProcDir)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(proc)
	pids, err := procfs.Numbers(proc)
	for _, pid := range pids {
		link, lerr := procfs.Namespace(proc, pid+"/ns/net")
		if lerr != nil && !procfs.Vanished(lerr) {
			return nil, fmt.Errorf("cannot read the network namespace of PID %s: %w", pid, lerr)
		}
		delete(found, link)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return found, err
}

// leftMounts counts the root file systems of tasks whose first process is gone, and containerd's temporary mounts. It does not
// count snapshots: only containerd's database shows which of them are in use.
func (p *Probe) leftMounts() (n int, err error) {
	root := p.cfg.below("/")
	err = procfs.EachMountOf(p.cfg.ProcDir, "self", func(l *procfs.MountLine) error {
		at, _ := procfs.Relative(procfs.Unescape(l.Target), root)
		for _, m := range taskMounts {
			if ok, _ := path.Match(m.pattern, at); ok && (!m.task || p.taskEnded(root, path.Dir(at))) {
				n++
			}
		}
		return nil
	})
	return n, err
}

// taskEnded reports whether the first process of a task is known to be gone. Other shims have no init.pid.
func (p *Probe) taskEnded(root, at string) bool {
	task, err := p.open.Descend(root, strings.Split(at[1:], "/")...)
	if err != nil {
		return false
	}
	defer task.Close()
	pid, err := task.ReadFile("init.pid", 32)
	if err != nil || strings.Trim(string(pid), "0123456789") != "" || len(pid) == 0 {
		return false
	}
	_, err = beneath.StatName(unix.AT_FDCWD, p.cfg.ProcDir+"/"+string(pid))
	return beneath.Gone(err)
}

// checkpoints counts the files of the kubelet's checkpoint API, which nothing removes.
func (p *Probe) checkpoints(v *policy.Leftover) (n int, err error) {
	err = p.each(p.cfg.RootDir, "checkpoints", func(dir *beneath.Dir, e beneath.Entry) error {
		if !strings.HasSuffix(e.Name, ".tar") {
			return nil
		}
		st, err := dir.StatName(e.Name)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			n++
			v.Bytes += int64(min(st.Blocks, 1<<50)) * 512
		}
		if beneath.Gone(err) {
			err = nil
		}
		return err
	})
	return n, err
}
