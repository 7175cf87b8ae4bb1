package look

import (
	"context"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
)

// owner is what all files of one container ID have.
type owner struct {
	uid            parsers.PodUID
	namespace, pod string
	netns          []string
	sandbox        bool // the kubelet's runtime made it for a pod
	whole          bool // a file that has the UID, where the runtime gives it, was read
	disagree       bool // two files have different pods
}

func (o *owner) add(f *cni.File) {
	// Only the kubelet's runtime calls Multus.
	o.whole, o.sandbox = o.whole || f.V1, o.sandbox || f.Sandbox || f.UID != "" || f.Kind == cni.Multus
	if f.NetNS != "" && !slices.Contains(o.netns, f.NetNS) {
		o.netns = append(o.netns, f.NetNS)
	}
	switch {
	case f.UID == "":
	case o.uid == "":
		o.uid, o.namespace, o.pod = f.UID, f.Namespace, f.PodName
	case o.uid != f.UID:
		o.disagree = true
	}
}

// chunkFacts combines the facts of one chunk.
type chunkFacts struct {
	s         *Sweep
	k         *chunkKnown
	at        policy.Instant
	owners    map[string]*owner
	elsewhere map[string]elsewhereFact // namespaces outside of NetnsDirs, by path
	unclaimed []unclaimed              // the namespaces in NetnsDirs without a known owner
}

// look returns the files of a chunk with their facts, by what was asked since the chunk was read.
func (s *Sweep) look(ctx context.Context, c *Chunk, a probe.Containers) cni.Look {
	k := s.ask(ctx, c, a)
	look := cni.Look{At: c.at, Node: k.node, Listed: k.runtime.all(), Live: map[cni.Kind]policy.Tally{}, InUse: map[string]int64{}}
	f := chunkFacts{s: s, k: k, at: c.at, owners: map[string]*owner{}}
	f.add(c, nil)
	if !c.caches {
		if missing := f.missing(); len(missing) > 0 {
			found := s.lookUp(ctx, missing, k)
			f.add(found, missing)
			found.close()
		}
	}
	f.findElsewhere(ctx)
	f.findUnclaimed()
	if f.needsOwners() {
		f.claimLiving(ctx)
	}
	kept := c.files[:0]
	for i := range c.files {
		file := &c.files[i]
		if file.Facts[cni.Tied].Truth == policy.Yes {
			if f.lives(file) {
				t := look.Live[file.Kind]
				t.Add(policy.Tally{Entries: 1, Bytes: file.ID.Size})
				look.Live[file.Kind] = t
				if file.Kind == cni.Address {
					look.InUse[file.Network]++
				}
				continue
			}
			f.fill(file)
		}
		kept = append(kept, *file)
	}
	look.Files = kept
	look.Errors, s.errors = s.errors, nil
	return look
}

// add adds the files of a chunk to their containers; only to the wanted ones, unless wanted is nil.
func (f *chunkFacts) add(c *Chunk, wanted map[string]bool) {
	for i := range c.files {
		file := &c.files[i]
		if file.Facts[cni.Tied].Truth != policy.Yes {
			continue
		}
		if place, ok := f.k.netns.place(file.NetNS); ok {
			if _, there := f.k.netns.have[place]; there {
				f.s.claims[place] = true
			}
		}
		if file.Sandbox && len(f.s.podNets) < mostNetworks {
			f.s.podNets[file.Network] = true
		}
		if wanted != nil && !wanted[file.Container] {
			continue
		}
		o := f.owners[file.Container]
		if o == nil {
			o = &owner{}
			f.owners[file.Container] = o
		}
		o.add(file)
	}
}

// missing returns the containers that are not listed and lack a namespace or a UID in this chunk:
// another cache file may have it.
func (f *chunkFacts) missing() map[string]bool {
	m := map[string]bool{}
	for id, o := range f.owners {
		if !f.k.runtime.listed(id) && (len(o.netns) == 0 || !o.whole) {
			m[id] = true
		}
	}
	return m
}

// mostLookedUp bounds the files that are read for one chunk: four of each container in it.
const mostLookedUp = 4 * usualChunk

// lookUp reads the cache files of some containers, and of all that the runtime lists, which own the namespaces that exist.
// It lists the caches again, which costs less than to keep 300,000 names. The caller closes the chunk.
func (s *Sweep) lookUp(ctx context.Context, missing map[string]bool, k *chunkKnown) *Chunk {
	c := &Chunk{}
	for _, d := range s.r.cacheDirs() {
		wanted := func(name string) bool { return missing[name] } // Multus' name is the ID
		switch d.kind {
		case cni.Cache:
			wanted = func(name string) (yes bool) {
				parsers.EachContainerID(name, func(id string) { yes = yes || k.runtime.listed(id) || missing[id] })
				return yes
			}
		case cni.Flannel, cni.Address:
			continue
		case cni.Multus:
		}
		type found struct {
			*bounded.Handle
			names []beneath.Entry
			err   error
		}
		got, err := do(ctx, s.r.Guard, "cni lookup "+d.path(), func() (*found, error) {
			fd, err := d.open(s.r.Open)
			if err != nil {
				return nil, err
			}
			f := &found{Handle: bounded.NewHandle(fd)}
			f.err = beneath.EachName(fd, make([]byte, 64<<10), func(e beneath.Entry) bool {
				if wanted(e.Name) {
					f.names = append(f.names, e)
				}
				return len(f.names) <= mostLookedUp
			})
			return f, nil
		})
		if err == nil {
			err = got.err
			c.add(&dirHandle{got.Handle, d.kind, d.path()}, got.names)
		}
		s.complain(cannotRead(clean.Name(d.path()), err))
	}
	s.readChunk(ctx, c)
	return c
}

// lives reports whether the file is of a container that the runtime lists, and is no broken one that
// hinders its teardown.
func (f *chunkFacts) lives(file *cni.File) bool {
	return f.k.runtime.listed(file.Container) && !file.BrokenCache()
}

// fill sets the facts of a file that is tied to a container.
func (f *chunkFacts) fill(file *cni.File) {
	o := f.owners[file.Container]
	if o.disagree {
		file.UID, file.Namespace, file.PodName = "", "", ""
		file.Container = ""
		file.Set(cni.Tied, policy.No, file.Dir, "the cache files of its container name two pods")
		return
	}
	file.UID, file.Namespace, file.PodName = o.uid, o.namespace, o.pod
	if file.BrokenCache() {
		file.Runtime = f.k.runtime.version(file.Container)
	}
	file.Facts[cni.Listed], file.Facts[cni.Ready] = f.k.runtime.facts(file.Container)
	file.Facts[cni.Alive] = f.alive(file.Container)
	file.Facts[cni.Netns] = f.netns(o, file)
	file.Facts[cni.Foreign] = f.foreign(o, file)
}

// alive returns whether the container has a task, or a cgroup, with or without a process.
func (f *chunkFacts) alive(id string) policy.Fact {
	const origin = "tasks and cgroups"
	k := f.k
	if t, ok := k.tasks.found[id]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: t.path, Detail: "it has a task in " + clean.Name(t.path)}
	}
	if path, ok := k.cgroups.Found[id]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: "the cgroup " + clean.Name(path) + " exists"}
	}
	switch {
	case k.tasks.err != nil:
		return policy.Fact{Origin: origin, Detail: k.tasks.err.Error()}
	case k.cgroups.Err != nil:
		return policy.Fact{Origin: origin, Detail: k.cgroups.Err.Error()}
	case !k.cgroups.Kube:
		return policy.Fact{Origin: origin, Detail: "no kubepods hierarchy is there"}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

// foreign returns whether the file may be another engine's. A container with a pod's UID, or that the runtime made as a sandbox,
// is a pod's. Otherwise the node's configuration must have the network, or a cache
// file of another pod: a network attachment (Multus) is defined at the API server only, so with
// the cache of its last pod the network is unknown here. A host-local store may be shared.
func (f *chunkFacts) foreign(o *owner, file *cni.File) policy.Fact {
	k, conf := f.k, &f.s.conf
	if d, ok := k.stores.found[file.Container]; ok {
		detail := "another engine has a container of this ID in " + clean.Name(d.path)
		if strings.HasSuffix(d.path, "-containers") {
			detail = "the store " + clean.Name(d.path) + ", which CRI-O and Podman share, has a container of this ID: " +
				"CRI-O removes one of its own that it does not list when it is started anew"
		}
		return policy.Fact{Truth: policy.Yes, Origin: d.path, Detail: detail}
	}
	if t, ok := k.tasks.found[file.Container]; ok && t.under != "" && t.under != criNamespace {
		return policy.Fact{Truth: policy.Yes, Origin: t.path, Detail: "it runs in containerd's namespace " + clean.Name(t.under)}
	}
	dir := strings.Join(conf.dirs, ", ")
	switch {
	case k.stores.err != nil:
		return policy.Fact{Origin: "engines", Detail: k.stores.err.Error()}
	case k.tasks.err != nil:
		return policy.Fact{Origin: "engines", Detail: k.tasks.err.Error()}
	case o.sandbox:
		return policy.Fact{Truth: policy.No, Origin: "engines"}
	case file.Network == "":
		return policy.Fact{Origin: dir, Detail: "no file has its network"}
	case conf.networks[file.Network], file.Network == loopback, f.s.podNets[file.Network]:
		return policy.Fact{Truth: policy.No, Origin: dir}
	case conf.err != nil:
		return policy.Fact{Origin: dir, Detail: conf.err.Error()}
	}
	return policy.Fact{
		Truth: policy.Yes, Origin: dir,
		Detail: "no configuration in " + clean.Name(dir) + " names the network " + clean.Name(file.Network) + ", and no cache file of a pod",
	}
}

// loopback is the network that containerd and CRI-O add to every sandbox by themselves.
const loopback = "cni-loopback"
