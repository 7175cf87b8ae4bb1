package probe

import (
	"context"
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

// Still reads the facts of policy.LastFacts anew, at this moment and for these pods only: one call of each
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
		cgroups.Compare(asked.Ready, p.cfg.CgroupRoot)
	}
	now := slices.Clone(pods)
	for i := range now {
		e := &now[i]
		asked.Tell(e)
		e.Facts[policy.FactMounted] = mounted.Fact(e.UID)
		e.Facts[policy.FactCgroup] = cgroups.Fact(e.UID, p.cfg.CgroupRoot)
		e.Facts[policy.FactStaticPod] = static.Fact(e, asked.Running)
		e.Facts[policy.FactKubeletLists] = list.Fact(e.UID)
	}
	return now
}
