package probe

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// globalMounts returns the volumes that are staged on this node, with the pods that have them.
func (l *gathering) globalMounts(ctx context.Context) policy.GlobalMounts {
	mounts := func() (map[string]poddir.PluginMount, error) { return pluginMounts(l.probe.cfg.ProcDir, l.Root.FD) }
	found, err := l.probe.dirs.Globals(ctx, l.Dirs, l.blocks, mounts)
	l.complain(err)
	all := policy.GlobalMounts{Read: err == nil, Node: l.api.Node}
	if len(found) == 0 {
		return all
	}
	doubt := l.probe.dirs.AddUsers(ctx, l.Dirs, found)
	if why := sameDevice(l.probe.cfg.ProcDir, found, l.wanted); doubt == "" {
		doubt = why
	}
	for _, v := range found {
		g := policy.GlobalMount{
			Path: "plugins/" + v.Path, Driver: v.Volume.Driver, Handle: v.Volume.Handle, Since: v.Since,
			Mounted: l.mountedAt(v), Wanted: policy.Fact{Truth: policy.No, Detail: "no pod directory has it"},
		}
		switch {
		case v.Unclear != "":
			g.Wanted = policy.Fact{Detail: v.Unclear}
		case doubt != "":
			g.Wanted = policy.Fact{Detail: doubt}
		}
		for _, uid := range v.Users {
			_, dir := l.Kind(string(uid))
			lives := l.lives(ctx, uid)
			switch {
			case dir || lives:
				g.Wanted = policy.Fact{Truth: policy.Yes, Detail: l.podName(uid)}
			case g.Wanted.Truth == policy.No:
				g.Wanted.Detail = "it is published for pod " + string(uid) + ", which has no directory"
			}
			g.Lives = g.Lives || lives
		}
		all.All = append(all.All, g)
	}
	return all
}

// Attachments asks the API server whether each volume has a VolumeAttachment, and sets Attached.
func (p *Probe) Attachments(ctx context.Context, node string, all []policy.GlobalMount) {
	p.lists().Attachments(ctx, node, all)
}

// mountedAt reports whether the volume is mounted at its staging path, in any mount namespace.
func (l *gathering) mountedAt(v poddir.Global) policy.Fact {
	hit, below := l.mounts.Below[v.Path]
	switch {
	case v.Mounted != nil:
		return policy.Fact{Truth: policy.Yes, Detail: "it is a mount point"}
	case below:
		return policy.Fact{Truth: policy.Yes, Detail: hit.Words()}
	case l.mounts.Err != nil:
		return policy.Fact{Detail: l.mounts.Err.Error()}
	}
	return policy.Fact{Truth: policy.No, Detail: "only the directory is left"}
}

// pluginMounts returns the mounts below plugins/ of an open directory, by path.
func pluginMounts(procDir string, root int) (map[string]poddir.PluginMount, error) {
	base, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(root))
	if err != nil {
		return nil, err
	}
	mounts := map[string]poddir.PluginMount{}
	err = procfs.EachMountOf(procDir, "self", func(l *procfs.MountLine) error {
		if at, ok := strings.CutPrefix(procfs.Unescape(l.Target), base+"/plugins/"); ok {
			mounts[at] = poddir.PluginMount{Dev: string(l.Dev), Root: procfs.Unescape(l.Root)}
		}
		return nil
	})
	return mounts, err
}

// sameDevice adds users to each mounted volume that has none: the pods in whose directories the same device is mounted, or a
// part of it. It returns why some may be missing. It reads nothing if every volume has a user, as usual.
func sameDevice(procDir string, all []poddir.Global, pods parsers.PodSet) (doubt string) {
	var open []*poddir.Global
	for i := range all {
		if all[i].Mounted != nil && len(all[i].Users) == 0 {
			open = append(open, &all[i])
		}
	}
	if len(open) == 0 {
		return ""
	}
	var uids []parsers.PodUID
	err := procfs.EachMountOf(procDir, "self", func(l *procfs.MountLine) error {
		if uids = pods.InPath(uids[:0], l.Target); len(uids) == 0 {
			return nil
		}
		for _, v := range open {
			if _, within := procfs.Relative(procfs.Unescape(l.Root), v.Mounted.Root); within && string(l.Dev) == v.Mounted.Dev {
				v.Users = append(v.Users, uids...)
			}
		}
		return nil
	})
	if err != nil {
		return "cannot read the mounts: " + err.Error()
	}
	return ""
}
