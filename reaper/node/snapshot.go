package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// snapshot puts the answers of all sensors together.
func (c *scan) snapshot() judge.Snapshot {
	s := judge.Snapshot{At: c.at, Node: c.node()}
	for _, name := range c.asked {
		s.Pods = append(s.Pods, c.pod(name))
	}
	for _, d := range []doubt{
		c.names.doubt, c.procs.doubt, c.kubelet.doubt, c.list.doubt, c.runtime.doubt, c.mounts.doubt, c.staged.doubt, c.cgroups.doubt, c.dirs.doubt, c.free.doubt,
	} {
		if d.err != nil && !slices.Contains(s.Problems, d.err.Error()) {
			s.Problems = append(s.Problems, d.err.Error())
			c.cfg.Logger.Debug("cannot read all of the node", slog.Any("error", d.err))
		}
	}
	return s
}

// node returns what was found about the node itself.
func (c *scan) node() judge.Node {
	n := judge.Node{FreeBytes: -1, FreeInodes: -1, Journal: c.journal()}
	if c.free.doubt.err == nil {
		n.FreeBytes, n.FreeInodes = c.free.found.bytes, c.free.found.inodes
	}
	n.Kubelet, n.KubeletKnown = c.kubelet.found.ours(c.kubelet.doubt)
	if n.Name = cmp.Or(c.cfg.NodeName, c.kubelet.found.nodeName); n.Name == "" {
		n.Name, _ = os.Hostname() // kubelet: nodeutil.GetHostname
		n.Name = strings.ToLower(n.Name)
	}
	n.RuntimeKnown = c.known
	n.SeesMounts = judge.Fact{Source: c.cfg.Proc, Detail: "the mounts of this process were not read"}
	if m := c.mounts.found; m != nil {
		n.SeesMounts = m.sees
	}
	return n
}

// journal returns No if journald keeps no journal on this node.
func (c *scan) journal() judge.Truth {
	for _, dir := range c.cfg.Journals {
		if _, err := os.Lstat(dir); err == nil {
			return judge.Yes
		} else if !errors.Is(err, fs.ErrNotExist) {
			return judge.Unknown
		}
	}
	return judge.No
}

// runtimeKnown returns Yes if the runtimes' answers are complete, and one of them lists a pod that has a directory here. If
// none does, they may be those of another engine or cluster.
func (c *scan) runtimeKnown() judge.Fact {
	r := c.runtime.found
	f := judge.Fact{Truth: judge.Yes, Source: r.source}
	switch {
	case c.runtime.doubt.err != nil:
		return c.runtime.doubt.fact(judge.Fact{Source: r.source})
	case c.names.doubt.err != nil:
		return c.names.doubt.fact(judge.Fact{Source: r.source})
	case r.source == "":
		return judge.Fact{Detail: "no container runtime answers at a usual socket; set runtime_endpoints"}
	}
	for _, name := range c.names.found {
		if _, ok := r.pods[parsers.PodUID(name)]; ok {
			return f
		}
	}
	return judge.Fact{Source: r.source, Detail: "no runtime lists a pod that has a directory here: the node is drained, or the kubelet uses another runtime"}
}

// pod returns what was found about one pod.
func (c *scan) pod(name string) judge.Pod {
	p := judge.Pod{Name: name}
	dir, read := c.dirs.found[name]
	switch {
	case read:
		p.Present, p.ID, p.Skeleton, p.SkeletonOnly = dir.present, dir.id, dir.skeleton, dir.only
	case c.listed(name):
		p.Present = judge.Yes
	}
	p.Facts[judge.Directory] = c.directoryFact(name, dir, read)
	uid, ok := parsers.ParsePodUID(name)
	if !ok {
		return p
	}
	p.UID, p.Static = uid, isStatic(uid)
	p.Facts[judge.Listed] = c.list.doubt.fact(c.list.found.fact(uid))
	p.Facts[judge.Running] = c.running(uid)
	p.Facts[judge.Cgroup] = c.cgroups.doubt.fact(c.cgroups.found.fact(uid, c.cfg.Cgroups))
	p.Facts[judge.Mounted] = c.mounts.doubt.fact(c.mounts.found.fact(uid))
	p.Facts[judge.Staged] = c.stagedFact(uid)
	p.Static = p.Static || c.list.found.pods[uid].static
	if pod := c.runtime.found.pods[uid]; pod != nil {
		p.Namespace, p.PodName, p.Static = pod.namespace, pod.name, p.Static || pod.static
	}
	if p.PodName == "" {
		p.PodName = dir.host
	}
	return p
}

// isStatic reports whether the UID has no dashes: the kubelet hashes a manifest to such a UID.
func isStatic(uid parsers.PodUID) bool { return len(uid) == 32 }

func (c *scan) directoryFact(name string, dir directory, read bool) judge.Fact {
	source := c.cfg.RootDir + "/pods/" + name
	switch {
	case read:
		dir.fact.Source = source
		return dir.fact
	case c.names.doubt.err != nil:
		return c.names.doubt.fact(judge.Fact{Source: source})
	}
	return c.dirs.doubt.fact(judge.Fact{Source: source})
}

// running returns whether a runtime has a ready sandbox or an unfinished container of the pod.
func (c *scan) running(uid parsers.PodUID) judge.Fact {
	r := c.runtime.found
	if pod := r.pods[uid]; pod != nil && pod.fact.Truth == judge.Yes {
		pod.fact.Source = r.source
		return pod.fact
	}
	if c.known.Truth != judge.Yes {
		return c.known
	}
	return judge.Fact{Truth: judge.No, Source: r.source}
}

func (c *scan) stagedFact(uid parsers.PodUID) judge.Fact {
	f := c.staged.found.fact(uid)
	for _, d := range []doubt{c.mounts.doubt, c.names.doubt} {
		if d.err != nil {
			return d.fact(f)
		}
	}
	return c.staged.doubt.fact(f)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// doubt is why an answer is not complete. The zero value is no doubt.
type doubt struct {
	err  error
	busy bool // only time caused it
}

// fact returns f if it is Yes or there is no doubt, else the doubt.
func (d doubt) fact(f judge.Fact) judge.Fact {
	if d.err == nil || f.Truth == judge.Yes {
		return f
	}
	return judge.Fact{Source: f.Source, Detail: d.err.Error(), Busy: d.busy}
}
