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

// Whether anything uses a directory that was made again while its elder was parked: in every path that the kernel shows the
// elder is UID.n by now. A text that is neither counts as a use.

// split separates the entries that rest from the others, and wants the pods of both.
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

// readAgain looks into the directories that were made again of parked pods.
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

// used puts together what shows that a directory that was made again is used, without the runtime's list.
func (l *gathering) used(uid parsers.PodUID) policy.Fact {
	return reading.UsedAgain(l.again[uid], l.mounts.Use(uid), l.openFiles.Use(uid))
}

// Used asks, at this moment and outside of a look, whether anything uses pods/UID, which was
// made again after the moment since: what a rename of it waits for.
func (p *Probe) Used(ctx context.Context, uid parsers.PodUID, since policy.Instant) policy.Fact {
	d, err := p.dirs.List(ctx)
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	defer d.Close()
	w := parsers.PodSet{uid: true}
	runtime := p.runtimes().Ask(ctx)
	e := policy.Evidence{UID: uid}
	// After the runtime: a sandbox that it lists was made after the pod's volumes were set up.
	content, m, files := p.dirs.MadeAgain(ctx, d, uid), p.readMounts(ctx, w), p.openFiles().Read(ctx, d.Pods, nil, w)
	e.Facts[policy.FactUsed], e.Elder = reading.UsedAgain(content, m.Use(uid), files.Use(uid)), m.Parked(uid)
	runtime.Fill(&e)
	return policy.Used(e, policy.Parked{At: since}, policy.Rules{Waive: p.cfg.Waive}, p.cfg.Clock.Now())
}

// Still reads the facts of policy.LastFacts again, at this moment and for these pods only: one call of each
// source, all at once. It returns a copy of each pod's evidence with these facts replaced, in bounded time
// whatever hangs: a source that did not answer by then leaves its facts Unknown.
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
