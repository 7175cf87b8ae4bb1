package probe

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

// runtimes asks the container runtimes. Which sockets are theirs is what the operator or the
// kubelet says.
func (p *Probe) runtimes() *runtime.Reader {
	c := &p.cfg
	return &runtime.Reader{
		Silent: c.Waive || c.RuntimeEndpoint == cri.EndpointNone, Usual: cri.UsualSockets(c.NodeRoot), Find: p.kubelets().Sockets,
		Now: func() time.Time { return c.Clock.Now().Wall }, Guard: p.guard,
	}
}

// wantDetached adds to the wanted pods those that the runtime has and the pods directory has
// not. The runtime was asked after the listing, so a pod that was made in between is among
// them; everything else says that it lives.
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

// count says how many pods the runtime has and the kubelet lists, where that is known.
func (l *gathering) count(look *policy.Look) {
	if l.runtime.SandboxErr == nil && l.runtime.ContainerErr == nil && l.runtime.Lists.Truth != policy.Unknown {
		look.InRuntime = &l.runtime.InRuntime
	}
	if l.podList.Silent == "" {
		look.KubeletLists = &l.podList.Listed
	}
}
