package app

import (
	"context"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/unmount"
)

// UnmountOptions are the options of one unmount.
type UnmountOptions struct {
	DryRun      bool
	DriversGone []string
	// Agree shows the mounts to the operator and asks. Waits prints that the command waits for the hold.
	Agree func(*reaper.Unmounting) error
	Waits func(*reaper.Unmounting, time.Duration)
}

// Unmount unmounts the mounts below the directory of a dead pod, in the node's own mount namespace.
func (by Person) Unmount(ctx context.Context, cfg config.Config, uid parsers.PodUID, o UnmountOptions) (*reaper.Unmounting, error) {
	defer progress.From(ctx).End()
	opened := options{access: Reads}
	if !o.DryRun {
		opened = by.options(cfg, Acts)
	}
	n, err := open(ctx, cfg, opened)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	detaches, err := unmount.New(unmount.Config{PodsDir: cfg.PodsDir()})
	if err != nil {
		return nil, err
	}
	n.Reaper.Rules.Observe = false // an operator's command acts in mode observe, too, and so does its dry run
	return n.Reaper.Unmount(ctx, uid, reaper.UnmountOptions{
		Unmounter: unmounter{n.probe, detaches}, DryRun: o.DryRun, DriversGone: o.DriversGone,
		Claims:  func() []reported.Claim { return recentClaims(ctx, cfg, n.Reaper.Clock, n.log) },
		Agree:   func(u *reaper.Unmounting) error { progress.From(ctx).End(); return o.Agree(u) },
		History: n.Store.History,
		Progress: func(u *reaper.Unmounting, wait time.Duration) {
			o.Waits(u, wait)
			progress.From(ctx).Begin("waiting for the hold", "", 0)
		},
		Sleep: sleep,
	})
}

// unmounter reads the mounts with the probe, and detaches them with package unmount.
type unmounter struct {
	probe *probe.Probe
	*unmount.Unmounter
}

// Mounts returns the mounts of a pod, with their unique IDs.
func (u unmounter) Mounts(ctx context.Context, uid parsers.PodUID, id policy.DirID) policy.PodMounts {
	p := u.probe.MountsBelow(ctx, uid)
	u.Identify(ctx, unmount.Pod{UID: uid, ID: id, Mounts: p.Mounts})
	return p
}

// Unmount detaches one mount. If it is busy, the outcome names the processes that use it.
func (u unmounter) Unmount(
	ctx context.Context, permit policy.Permit, uid parsers.PodUID, id policy.DirID, m policy.Mount, all []policy.Mount,
) policy.MountOutcome {
	o := u.Unmounter.Unmount(ctx, permit, unmount.Pod{UID: uid, ID: id, Mounts: all}, m)
	if o.Busy {
		if holders := u.probe.Holders(ctx, m); len(holders) > 0 {
			o.Why += " by " + strings.Join(holders, ", ")
		} else {
			o.Why += ", and no process is found that has a file of it open; a mapped file, a loop device or swap may keep it busy"
		}
	}
	return o
}
