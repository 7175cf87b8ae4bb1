package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/openfiles"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

// gathering is a look in progress.
type gathering struct {
	probe   *Probe
	rootDir string // the root directory as configured, for messages
	*poddir.Dirs
	wanted  parsers.PodSet
	partial bool // only some pods were asked for

	runtime     runtime.Answer
	node        policy.Node
	mounts      *mounts.Answer
	cgroups     *cgroup.Answer
	static      *kubelet.StaticPods
	podList     *podlists.KubeletAnswer
	api         *podlists.APIAnswer
	lists       *reading.PodLists
	openFiles   *openfiles.Answer
	again       map[parsers.PodUID]policy.Fact // poddir.Reader.MadeAgain of parked pods
	blocks      *poddir.Blocks
	volumeUsers reading.VolumeUsers
	detached    []parsers.PodUID // pods of the runtime without a pod directory, sorted
	moved       error            // kubelet.Answer.Moved
	errors      []string
}

// Look gathers the facts about every entry of the pods directory, or about those of only, and about the parked pods. What
// cannot be read is Unknown and in Look.Errors; the error means that the pods directory could not be listed. It returns in
// bounded time whatever hangs: what has not answered by then is Unknown.
//
// It lists the pods directory first, so that no answer is older than the listing: a pod that appears in between is not in
// the look.
func (p *Probe) Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	at := p.cfg.Clock.Now()
	dirs, err := p.dirs.List(ctx)
	if err != nil {
		switch k := p.kubelets().Find(ctx); {
		case k.Moved != nil:
			err = k.Moved
		case k.Agrees.Truth != policy.Yes: // it may be the wrong directory
			err = fmt.Errorf("%w; %s", err, k.Agrees.Detail)
		}
		return policy.Look{At: at}, err
	}
	l := &gathering{probe: p, rootDir: p.cfg.RootDir, Dirs: dirs, wanted: parsers.PodSet{}, partial: len(only) > 0}
	defer l.Close()
	pods := l.choose(only)
	quarantine, csi := p.dirs.OpenBeside(ctx, l.Dirs)
	l.complain(quarantine)
	l.complain(csi)
	parked, resting := l.split(parked)
	all := l.readings(pods, parked)
	reads := l.gather(ctx, all)
	l.readAgain(ctx, parked)
	if l.moved != nil {
		return policy.Look{At: at}, l.moved
	}
	l.lists = l.podLists()
	look := policy.Look{At: at, Node: l.node, Pods: make([]policy.Evidence, 0, len(pods))}
	for i, d := range pods {
		if !reads[i].Gone { // else the kubelet has removed it meanwhile
			look.Pods = append(look.Pods, l.evidence(d.Name, reads[i]))
		}
	}
	look.Parked = make([]policy.Evidence, 0, len(parked))
	for i, e := range parked {
		look.Parked = append(look.Parked, l.parkedEvidence(e, reads[len(pods)+i]))
	}
	for _, e := range resting {
		look.Resting = append(look.Resting, l.parkedEvidence(e, p.dirs.Resting(e)))
	}
	look.RuntimeOnly, look.Partial = l.runtimeOnly(slices.Concat(parked, resting)), l.partial
	look.Listed = l.allListed()
	look.Manifests, look.StaticSandboxes = &l.static.StaticPods, l.runtime.Running
	l.count(&look)
	look.Errors = l.errors
	p.cfg.Logger.DebugContext(ctx, "looked", slog.Int("pods", len(look.Pods)), slog.Int("parked", len(look.Parked)),
		slog.Int("mount_namespaces", l.mounts.Namespaces()), slog.Int("errors", len(l.errors)))
	return look, nil
}

// choose returns the entries to read, and adds them to wanted.
func (l *gathering) choose(only []parsers.PodUID) []beneath.Entry {
	if len(only) == 0 {
		for _, d := range l.Names {
			if uid, ok := parsers.ParsePodUID(d.Name); ok {
				l.wanted[uid] = true
			}
		}
		return l.Names
	}
	for _, uid := range only {
		l.wanted[uid] = true
	}
	var chosen []beneath.Entry
	for _, d := range l.Names {
		if l.wanted[parsers.PodUID(d.Name)] {
			chosen = append(chosen, d)
		}
	}
	return chosen
}

// readings returns the directories to read: the pods' and then the parked pods'.
func (l *gathering) readings(pods []beneath.Entry, parked []policy.EntryState) []poddir.Dir {
	all := make([]poddir.Dir, 0, len(pods)+len(parked))
	for _, d := range pods {
		all = append(all, l.probe.dirs.Pod(l.Dirs, d))
	}
	for _, e := range parked {
		l.wanted[e.UID] = true
		all = append(all, l.probe.dirs.Parked(l.Dirs, e))
	}
	return all
}

// gather reads all sources at once. Each has its own timeout and error.
func (l *gathering) gather(ctx context.Context, all []poddir.Dir) []*poddir.Answer {
	p := l.probe
	var wg, mounted sync.WaitGroup
	var found kubelet.Answer
	asked := make(chan struct{})
	wg.Go(func() {
		defer close(asked)
		l.runtime = p.runtimes().Ask(ctx)
		l.wantDetached()
	})
	wg.Go(func() {
		kubelets := p.kubelets()
		found = kubelets.Find(ctx)
		running := found.Running
		l.moved = found.Moved
		wg.Go(func() { l.api = p.lists().API(ctx, running.NodeName()) })
		l.static = kubelets.StaticPods(ctx, running)
		l.podList = p.kubeletList(ctx, running)
	})
	listed := make(chan struct{})
	wg.Go(func() {
		defer close(listed)
		l.cgroups = p.cgroups().Pods(ctx)
		<-asked
		p.cgroups().FindIdle(ctx, l.cgroups, l.wanted, l.runtime.Ready())
	})
	// These search for the wanted pods, to which the runtime may add some.
	mounted.Go(func() { <-asked; l.mounts = p.mounts.Read(ctx, l.wanted, l.runtime.Sockets) })
	wg.Go(func() { <-asked; l.openFiles = p.openFiles().Read(ctx, l.Pods, l.Quarantine, l.wanted) })
	wg.Go(func() { <-asked; l.blocks = p.dirs.Blocks(ctx, l.Dirs, l.wanted) })
	if p.open.Fallback() != nil {
		// Without openat2, opening a mount point of a dead file system may hang: skip such pods.
		mounted.Wait()
		for i := range all {
			if _, ok := l.mounts.Pods[all[i].UID]; ok {
				all[i].Skip = "not read: something is mounted below it, and there is no openat2"
			}
		}
	}
	<-listed
	for i, d := range all {
		all[i].Alive = l.life(d.UID).PassOver(l.partial, d.Parked)
	}
	reads := p.dirs.Read(ctx, l.Dirs, all)
	mounted.Wait()
	wg.Wait()
	l.relate(ctx, found, reads)
	l.complainOf(found)
	l.complainOfPods(reads)
	return reads
}

// relate compares the answers, and reads what depends on several of them.
func (l *gathering) relate(ctx context.Context, found kubelet.Answer, reads []*poddir.Answer) {
	p := l.probe
	l.mounts = p.mounts.ReadHeld(ctx, l.mounts, l.openFiles.Namespaces(), l.wanted, l.runtime.Sockets)
	l.api.Weigh(func(uid parsers.PodUID) bool { return l.life(uid).Here() })
	if !p.cfg.Waive && !p.cfg.NodeNamespacesSelf { // else the operator has chosen the cgroups
		l.cgroups.Compare(l.runtime.Ready(), p.cfg.CgroupRoot)
	}
	l.volumeUsers = l.livingVolumes(ctx, reads)
	l.node = p.node(ctx, l, found)
	l.node.Gauges = l.podList.Gauges
}

// kubeletList asks the kubelet for its pods.
func (p *Probe) kubeletList(ctx context.Context, running *kubelet.Kubelet) *podlists.KubeletAnswer {
	lists, origin, pid := p.lists(), p.cfg.ProcDir, 0
	var endpoint podlists.Endpoint
	if running != nil {
		origin, pid = running.String(), running.ID.PID
		endpoint = func(ctx context.Context) (string, *tls.Config, error) { return p.kubelets().Endpoint(ctx, running) }
	}
	l := lists.Kubelet(ctx, origin, endpoint)
	l.Own = lists.PodsAPI(ctx, pid) // after the gauges, which may prove it complete
	return l
}
