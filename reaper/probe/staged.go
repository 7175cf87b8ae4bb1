package probe

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
)

// livingVolumes returns the living users of staged volumes, if a pod of reads has any.
func (l *gathering) livingVolumes(ctx context.Context, reads []*poddir.Answer) reading.VolumeUsers {
	staged := slices.ContainsFunc(reads, func(r *poddir.Answer) bool { return len(l.staged(r)) > 0 })
	return l.probe.dirs.Users(ctx, l.Dirs, l.blocks, staged, func(uid parsers.PodUID) bool { return l.lives(ctx, uid) })
}

// lives reports whether the pod has a sign of life. It also reads cgroups that the look has not read.
func (l *gathering) lives(ctx context.Context, uid parsers.PodUID) bool {
	life := l.life(uid)
	life.Process = life.Process || !life.Any() && l.cgroups.HasProcess(ctx, uid)
	return life.Any()
}

// volumesOf returns what is known of the volumes of one pod.
func (l *gathering) volumesOf(uid parsers.PodUID, r *poddir.Answer) *reading.PodVolumes {
	_, anyCSI := l.mounts.Below[poddir.CSIDir]
	o := &reading.PodVolumes{
		Pod: uid, Mounts: l.staged(r), Mapped: l.blocks.Pods[uid], Blocks: l.blocks.CSI[uid], InTree: l.stagedInTree(r),
		Err:      cmp.Or(r.Err, l.mounts.Err, l.blocks.Err, l.CSIErr()),
		Unlisted: r.Alive, Unclear: r.Staging.Unclear, AnyCSI: anyCSI, Left: r.Staging.Left,
	}
	if c := r.Content; r.Alive == "" && c != nil {
		if o.Listed = c.Unlisted == nil; !o.Listed {
			o.Unlisted = "it is not known which volumes the pod has: " + c.Unlisted.Error()
		}
	}
	return o
}

// staged returns the mounts of any namespace at or below the staging paths.
func (l *gathering) staged(r *poddir.Answer) []reading.StagedMount {
	var all []reading.StagedMount
	add := func(p poddir.StagingPath, what string) {
		all = append(all, reading.StagedMount{Path: p.Path, Shown: clean.Name(p.Path), Volume: p.Volume, What: what})
	}
	for _, p := range r.Staging.Paths {
		if p.Mounted {
			add(p, "plugins/"+clean.Name(p.Path)+" is a mount point"+unstage(l.rootDir+"/plugins/"+p.Path))
		}
	}
	for _, p := range r.Staging.Paths {
		if h, ok := l.mounts.Below[p.Path]; ok && !p.Mounted {
			add(p, "staged: "+h.Words()+l.unstageHit(h))
		}
	}
	return all
}

// unstage returns what an operator can do about a mount that no driver unmounts any more.
func unstage(path string) string {
	if command := mounts.UmountCommand(path); command != "" {
		return "; if no pod uses the volume any more: " + command
	}
	return ""
}

// unstageHit is unstage for a mount of any namespace. It returns no command for that of a container, where
// nsenter would run the container's umount.
func (l *gathering) unstageHit(h mounts.Hit) string {
	pid, in := h.PID()
	if in && pid == "1" {
		return unstage(h.Target)
	}
	if owner, ok := l.mounts.Owner(h); ok {
		return "; if no pod uses the volume any more: restart " + l.podName(owner) + ", whose process holds it"
	}
	if in {
		return "; if no pod uses the volume any more, end that process to end the mount"
	}
	return ""
}

// stagedInTree returns a mount of an in-tree volume plugin whose path has the name of one of the pod's volumes.
func (l *gathering) stagedInTree(r *poddir.Answer) string {
	if r.Content == nil {
		return ""
	}
	for _, v := range r.Content.Volumes {
		plugin := strings.ReplaceAll(v.Plugin, "~", "/")
		if !strings.HasPrefix(plugin, "kubernetes.io/") {
			plugin = "kubernetes.io/flexvolume" // vendor~driver
		}
		if h, ok := l.mounts.InPlugin(plugin, v.Name); ok && plugin != poddir.CSIDir {
			return "staged: " + h.Words()
		}
	}
	return ""
}

// agent returns a message about another pod whose process keeps a mount of this pod, "" if there is none.
func (l *gathering) agent(uid parsers.PodUID) string {
	owner, ok := l.mounts.Agent(uid)
	if !ok {
		return ""
	}
	return "; the process is of " + l.podName(owner) + ": restart that pod to end the mount"
}

// podName returns a pod's name for messages, from the runtime, else its UID.
func (l *gathering) podName(owner parsers.PodUID) string {
	name := "pod " + string(owner)
	if n, ok := l.runtime.Name(owner); ok {
		name = "pod " + n.Namespace + "/" + n.Name
	}
	return name
}
