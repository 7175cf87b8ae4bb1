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

// wantDetached adds the pods of the runtime that run without a pod directory to the wanted pods. A pod that was
// made after the listing is one of them; its other facts show that it lives.
func (l *gathering) wantDetached() {
	for uid, pod := range l.runtime.Pods {
		sandbox, container := pod.Life()
		if _, ok := l.Kind(string(uid)); !ok && (sandbox || container) && (!l.partial || l.wanted[uid]) {
			l.detached = append(l.detached, uid)
		}
	}
	slices.Sort(l.detached)
	for _, uid := range l.detached {
		l.wanted[uid] = true
	}
}

// runtimeOnly returns the evidence about the pods that have no directory, except the parked ones.
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

// count sets how many pods the runtime and the kubelet list, if that is known.
func (l *gathering) count(look *policy.Look) {
	if l.runtime.SandboxErr == nil && l.runtime.ContainerErr == nil && l.runtime.Lists.Truth != policy.Unknown {
		look.InRuntime = &l.runtime.InRuntime
	}
	if l.podList.Silent == "" {
		look.KubeletLists = &l.podList.Listed
	}
}

// Containers has what runtimes and cgroups show of all containers of the node, for products beside the core.
type Containers struct {
	Node policy.Node // without RuntimeLists
	// Lists has the answers of the runtime's sockets. Unasked is why there are none.
	Lists   []cri.Lists
	Sockets cri.Sockets
	Unasked error
	Cgroups cgroup.IDs
	Errors  []error // for messages
}

// Containers reads runtimes, kubelet and cgroups at once. Each has its own timeout and error. Node.MayEnforce is about the file
// system of dir, and Unknown if that is nil.
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

// mayEnforceOn is mayEnforce for the file system of an open directory.
func (p *Probe) mayEnforceOn(ctx context.Context, h *bounded.Handle, kubelet policy.Fact) policy.Fact {
	f, err := bounded.On(ctx, p.guard, "namespaces", h, func(fd int) policy.Fact { return p.mayEnforce(kubelet, askMount(fd)) })
	if err != nil {
		f.Detail = fmt.Sprintf("it is not known whether these are the node's namespaces: %v", err)
	}
	return f
}
