package look

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
)

// owner holds the facts that all files of one container ID share.
type owner struct {
	uid            parsers.PodUID
	namespace, pod string
	netns          []string
	sandbox        bool // the kubelet's runtime created it for a pod
	v1             bool // a file in the format that may have the UID was read
	disagree       bool // two files name different pods
}

func (o *owner) add(f *cni.File) {
	// Only the kubelet's runtime calls Multus.
	o.v1, o.sandbox = o.v1 || f.V1, o.sandbox || f.Sandbox || f.UID != "" || f.Kind == cni.Multus
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

// facts holds the node's answers after a chunk was read, and the owners of the files in the chunk.
type facts struct {
	s       *Sweep
	at      policy.Instant
	node    policy.Node
	runtime runtimeIDs
	cgroups cgroup.IDs
	tasks   idDirs
	stores  idDirs
	netns   netnsSet
	owners  map[string]*owner
	// elsewhere are the namespaces outside NetnsDirs, by path, and unclaimed those in NetnsDirs without a known owner.
	elsewhere map[string]elsewhere
	unclaimed []unclaimed
}

// ask gathers the facts of the node concurrently; each part has its own deadline and error.
func (s *Sweep) ask(ctx context.Context, at policy.Instant, a probe.Containers) *facts {
	r := s.r
	f := &facts{
		s: s, at: at, node: a.Node, runtime: listedIDs(a), cgroups: a.Cgroups,
		owners: map[string]*owner{}, elsewhere: map[string]elsewhere{},
	}
	f.node.RuntimeLists = f.runtime.lists
	var wg sync.WaitGroup
	wg.Go(func() { f.tasks = r.idDirs(ctx, r.TaskDirs) })
	wg.Go(func() { f.stores = r.idDirs(ctx, r.Stores) })
	wg.Go(func() { f.netns = r.netnsSet(ctx) })
	wg.Wait()
	s.addErrors(a.Errors...)
	s.addErrors(f.runtime.err, f.cgroups.Err, f.tasks.err, f.stores.err, f.netns.err)
	return f
}

// look returns the files of a chunk with their facts.
func (s *Sweep) look(ctx context.Context, c chunk, a probe.Containers) cni.Look {
	f := s.ask(ctx, c.at, a)
	look := cni.Look{At: c.at, Node: f.node, Listed: f.runtime.all(), Live: map[cni.Kind]policy.Tally{}, InUse: map[string]int64{}}
	f.add(c.files, nil)
	if missing := f.missing(); !c.caches && len(missing) > 0 {
		f.add(s.lookUp(ctx, missing, &f.runtime), missing)
	}
	f.claim(ctx)
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
			f.fill(ctx, file)
		}
		kept = append(kept, *file)
	}
	look.Files = kept
	look.Errors, s.errors = s.errors, nil
	return look
}

// add adds files to their owners; only to the wanted ones, unless wanted is nil.
func (f *facts) add(files []cni.File, wanted map[string]bool) {
	for i := range files {
		file := &files[i]
		if file.Facts[cni.Tied].Truth != policy.Yes {
			continue
		}
		if place, ok := f.netns.place(file.NetNS); ok {
			if _, there := f.netns.have[place]; there {
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

// missing returns the unlisted containers whose files in this chunk lack a namespace or a UID: another cache file may
// have it.
func (f *facts) missing() map[string]bool {
	m := map[string]bool{}
	for id, o := range f.owners {
		if !f.runtime.listed(id) && (len(o.netns) == 0 || !o.v1) {
			m[id] = true
		}
	}
	return m
}

// mostLookedUp limits the files that lookUp reads: four for each container of a chunk.
const mostLookedUp = 4 * usualChunk

// lookUp reads the cache files of the missing containers, and of the listed ones, which own namespaces. It lists the
// caches again, which costs less than keeping 300,000 names.
func (s *Sweep) lookUp(ctx context.Context, missing map[string]bool, listed *runtimeIDs) (files []cni.File) {
	for _, d := range s.r.cacheDirs() {
		wanted := func(name string) bool { return missing[name] } // Multus' name is the ID
		switch d.kind {
		case cni.Cache:
			wanted = func(name string) (yes bool) {
				parsers.EachContainerID(name, func(id string) { yes = yes || listed.listed(id) || missing[id] })
				return yes
			}
		case cni.Flannel, cni.Address:
			continue
		case cni.Multus:
		}
		open, err := s.r.openDir(ctx, d)
		for found := 0; err == nil && !open.done && found <= mostLookedUp; {
			var some []cni.File
			some, err = s.r.readSome(ctx, open, batchSize, nil, wanted)
			found += len(some)
			files = append(files, some...)
		}
		if open != nil {
			open.Unref()
		}
		s.addErrors(cannotRead(clean.Name(d.path()), err))
	}
	return files
}

// lives reports whether the runtime lists the file's container and the file does not block its teardown.
func (f *facts) lives(file *cni.File) bool {
	return f.runtime.listed(file.Container) && !file.BrokenCache()
}

func (f *facts) fill(ctx context.Context, file *cni.File) {
	o := f.owners[file.Container]
	if o.disagree {
		file.UID, file.Namespace, file.PodName = "", "", ""
		file.Container = ""
		file.Set(cni.Tied, policy.No, file.Dir, "the cache files of its container name two pods")
		return
	}
	file.UID, file.Namespace, file.PodName = o.uid, o.namespace, o.pod
	if file.BrokenCache() {
		file.Runtime = f.version(ctx, file.Container)
	}
	file.Facts[cni.Listed], file.Facts[cni.Ready] = f.runtime.facts(file.Container)
	file.Facts[cni.Alive] = f.alive(file.Container)
	file.Facts[cni.Netns] = f.netnsOf(ctx, o, file)
	file.Facts[cni.Foreign] = f.foreign(o, file)
}

// alive returns the fact Alive: whether the container has a task or a cgroup, even one without a process.
func (f *facts) alive(id string) policy.Fact {
	const origin = "tasks and cgroups"
	if t, ok := f.tasks.found[id]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: t.path, Detail: "it has a task in " + clean.Name(t.path)}
	}
	if path, ok := f.cgroups.Found[id]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: "the cgroup " + clean.Name(path) + " exists"}
	}
	switch {
	case f.tasks.err != nil:
		return policy.Fact{Origin: origin, Detail: f.tasks.err.Error()}
	case f.cgroups.Err != nil:
		return policy.Fact{Origin: origin, Detail: f.cgroups.Err.Error()}
	case !f.cgroups.Kube:
		return policy.Fact{Origin: origin, Detail: "no kubepods hierarchy is there"}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

// foreign returns the fact Foreign: whether the file may be another engine's, since host-local's store may be shared.
// A container with a pod's UID, or that the runtime created as a sandbox, is a pod's. Any other needs a network that
// is in the node's configuration or in a cache file of a pod: the network of a Multus attachment is defined only at
// the API server.
func (f *facts) foreign(o *owner, file *cni.File) policy.Fact {
	conf := &f.s.conf
	if d, ok := f.stores.found[file.Container]; ok {
		detail := "another engine has a container of this ID in " + clean.Name(d.path)
		if strings.HasSuffix(d.path, "-containers") {
			detail = "the store " + clean.Name(d.path) + ", which CRI-O and Podman share, has a container of this ID: " +
				"CRI-O removes its own unlisted containers when it is restarted"
		}
		return policy.Fact{Truth: policy.Yes, Origin: d.path, Detail: detail}
	}
	if t, ok := f.tasks.found[file.Container]; ok && t.under != "" && t.under != criNamespace {
		return policy.Fact{Truth: policy.Yes, Origin: t.path, Detail: "it runs in containerd's namespace " + clean.Name(t.under)}
	}
	dir := strings.Join(conf.dirs, ", ")
	switch {
	case f.stores.err != nil:
		return policy.Fact{Origin: "engines", Detail: f.stores.err.Error()}
	case f.tasks.err != nil:
		return policy.Fact{Origin: "engines", Detail: f.tasks.err.Error()}
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

// loopback is the network that containerd and CRI-O add to every sandbox.
const loopback = "cni-loopback"
