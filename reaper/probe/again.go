package probe

import (
	"context"
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

// split separates the resting entries from the others, and adds the pods of both to wanted.
func (l *gathering) split(all []policy.EntryState) (parked, resting []policy.EntryState) {
	for _, e := range all {
		l.wanted[e.UID] = true
		if e.Rests {
			resting = append(resting, e)
		} else {
			parked = append(parked, e)
		}
	}
	return parked, resting
}

// readAgain reads the pod directories that were made again while the pod was parked.
func (l *gathering) readAgain(ctx context.Context, parked []policy.EntryState) {
	for _, e := range parked {
		if _, ok := l.Kind(string(e.UID)); !ok {
			continue
		}
		if l.again == nil {
			l.again = map[parsers.PodUID]policy.Fact{}
		}
		l.again[e.UID] = l.probe.dirs.MadeAgain(ctx, l.Dirs, e.UID)
	}
}

// used reports whether a directory that was made again is used, without the runtime's list. In the paths of the kernel the
// parked one is UID.n.
func (l *gathering) used(uid parsers.PodUID) policy.Fact {
	return reading.UsedAgain(l.again[uid], l.mounts.Use(uid), l.openFiles.Use(uid))
}

// Used reports whether anything uses pods/UID now, outside of a look. It was made again after the moment since, and a
// rename waits until it is unused.
func (p *Probe) Used(ctx context.Context, uid parsers.PodUID, since policy.Instant) policy.Fact {
	d, err := p.dirs.List(ctx)
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	defer d.Close()
	w := parsers.PodSet{uid: true}
	runtime := p.runtimes().Ask(ctx)
	e := policy.Evidence{UID: uid}
	// After the runtime's list: a pod's volumes are set up before its sandbox.
	content, m, files := p.dirs.MadeAgain(ctx, d, uid), p.readMounts(ctx, w), p.openFiles().Read(ctx, d.Pods, nil, w)
	e.Facts[policy.FactUsed], e.Elder = reading.UsedAgain(content, m.Use(uid), files.Use(uid)), m.Parked(uid)
	runtime.Fill(&e)
	return policy.Used(e, policy.Parked{At: since}, policy.Rules{Waive: p.cfg.Waive}, p.cfg.Clock.Now())
}

// Still reads the facts of policy.LastFacts again for these pods, from all sources at once. It returns a copy
// of each pod's evidence with these facts replaced. It returns in bounded time whatever hangs: the facts of a
// source that has not answered by then are Unknown.
func (p *Probe) Still(ctx context.Context, pods []policy.Evidence) []policy.Evidence {
	w := parsers.PodSet{}
	for i := range pods {
		w[pods[i].UID] = true
	}
	var (
		wg      sync.WaitGroup
		asked   runtime.Answer
		cgroups *cgroup.Answer
		mounted *mounts.Answer
		static  *kubelet.StaticPods
		list    *podlists.KubeletAnswer
	)
	wg.Go(func() {
		asked = p.runtimes().Ask(ctx)
		mounted = p.mounts.Read(ctx, w, asked.Sockets)
	})
	wg.Go(func() { cgroups = p.cgroups().Pods(ctx) })
	wg.Go(func() {
		kubelets := p.kubelets()
		running := kubelets.Find(ctx).Running
		static = kubelets.StaticPods(ctx, running)
		list = p.kubeletList(ctx, running)
	})
	wg.Wait()
	if !p.cfg.Waive && !p.cfg.NodeNamespacesSelf {
		cgroups.Compare(asked.Ready(), p.cfg.CgroupRoot)
	}
	now := slices.Clone(pods)
	for i := range now {
		e := &now[i]
		asked.Fill(e)
		e.Facts[policy.FactMounted] = mounted.Fact(e.UID)
		e.Facts[policy.FactCgroup] = cgroups.Fact(e.UID, p.cfg.CgroupRoot)
		e.Facts[policy.FactStaticPod] = static.Fact(e, asked.Running)
		e.Facts[policy.FactKubeletLists] = list.Fact(e.UID)
	}
	return now
}
