package probe

import (
	"context"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// MountsBelow reads what is mounted of one pod, for an operator who wants it unmounted. It returns in bounded time; what
// is not known by then is Unknown.
func (p *Probe) MountsBelow(ctx context.Context, uid parsers.PodUID) policy.PodMounts {
	found, _ := p.runtimes().Sockets(ctx) // without them a confined container is not known
	return p.mounts.Below(ctx, uid, found.Paths, p.cfg.NodeNamespacesSelf)
}

// Holders names processes that keep a mount busy.
func (p *Probe) Holders(ctx context.Context, m policy.Mount) []string {
	return p.mounts.Holders(ctx, m)
}
