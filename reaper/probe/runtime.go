package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

func (p *Probe) runtimes() *runtime.Reader {
	c := &p.cfg
	return &runtime.Reader{
		Silent: c.Waive || c.RuntimeEndpoint == cri.EndpointNone, Usual: cri.UsualSockets(c.NodeRoot), Find: p.kubelets().Sockets,
		Now: func() time.Time { return c.Clock.Now().Wall }, Guard: p.guard,
	}
}

// wantDetached adds to the wanted pods those that the runtime has and the pods directory has
// not. The runtime was asked after the listing, so a pod that was made in between is among
// them; all other facts show that it lives.
func (l *gathering) wantDetached() {
	for uid := range l.runtime.Pods {
		if _, ok := l.Kind(string(uid)); !ok && (!l.partial || l.wanted[uid]) {
			l.detached = append(l.detached, uid)
		}
	}
	slices.Sort(l.detached)
	for _, uid := range l.detached {
		l.wanted[uid] = true
	}
}

// runtimeOnly puts together what is known of the pods that only the runtime has. Those that
// are parked are in the look as such.
func (l *gathering) runtimeOnly(parked []policy.EntryState) []policy.Evidence {
	var only []policy.Evidence
	for _, uid := range l.detached {
		if slices.ContainsFunc(parked, func(p policy.EntryState) bool { return p.UID == uid }) {
			continue
		}
		e := policy.Evidence{Name: string(uid), UID: uid, RuntimeOnly: true}
		l.fill(&e, l.probe.dirs.Absent())
		only = append(only, e)
	}
	return only
}

// count reports how many pods the runtime has and the kubelet lists, where that is known.
func (l *gathering) count(look *policy.Look) {
	if l.runtime.SandboxErr == nil && l.runtime.ContainerErr == nil && l.runtime.Lists.Truth != policy.Unknown {
		look.InRuntime = &l.runtime.InRuntime
	}
	if l.podList.Silent == "" {
		look.KubeletLists = &l.podList.Listed
	}
}

// Containers is what the node shows of all containers, whichever pod they are of: for products beside the core.
type Containers struct {
	Node policy.Node // but for RuntimeLists
	// Lists are the answers of the runtime's sockets, or Unasked is why there are none.
	Lists   []cri.Lists
	Sockets cri.Sockets
	Unasked error
	Cgroups cgroup.IDs
	Errors  []error // what could not be asked, for messages
}

// Containers asks for them; each part has its own time and its own error. Node.MayEnforce is of the file system of dir; nil is unknown.
func (p *Probe) Containers(ctx context.Context, dir *bounded.Handle) (a Containers) {
	var found kubelet.Answer
	var wg sync.WaitGroup
	wg.Go(func() { a.Lists, a.Sockets, a.Unasked = p.runtimes().Lists(ctx) })
	wg.Go(func() { found = p.kubelets().Find(ctx) })
	wg.Go(func() { a.Cgroups = p.cgroups().ContainerIDs(ctx) })
	wg.Wait()
	a.Node = policy.Node{Kubelet: found.Runs, FreeBytes: -1, FreeInodes: -1, Agrees: found.Agrees}
	if found.Running != nil {
		a.Node.KubeletID = found.Running.ID
	}
	if found.Runs.Truth == policy.Unknown && !p.cfg.Waive {
		a.Errors = append(a.Errors, errors.New(found.Runs.Detail))
	}
	if a.Unasked != nil && !errors.Is(a.Unasked, runtime.ErrNotAsked) {
		a.Errors = append(a.Errors, a.Unasked)
	}
	if dir != nil {
		a.Node.MayEnforce = p.mayEnforceOn(ctx, dir, found.Runs)
	}
	return a
}

// mayEnforceOn asks for the file system of an open directory.
func (p *Probe) mayEnforceOn(ctx context.Context, h *bounded.Handle, kubelet policy.Fact) policy.Fact {
	f, err := bounded.On(ctx, p.guard, "namespaces", h, func(fd int) policy.Fact { return p.mayEnforce(kubelet, askMount(fd)) })
	if err != nil {
		f.Detail = fmt.Sprintf("it is not known whether these are the node's namespaces: %v", err)
	}
	return f
}
