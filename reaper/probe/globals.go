package probe

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// settles is how old a staged volume has to be: the kubelet stages it before the pod's directory names it.
const settles = 5 * time.Minute

// Staged returns the CSI volumes that are staged on this node and that no pod directory names, for display. An error
// means that not all could be read.
func (p *Probe) Staged(ctx context.Context) ([]policy.StagedVolume, error) {
	dirs, err := p.dirs.List(ctx)
	if err != nil {
		return nil, err
	}
	defer dirs.Close()
	mounted, err := pluginMounts(p.cfg.ProcDir, dirs.Root.FD)
	if err != nil {
		return nil, err
	}
	found, err := p.dirs.Unnamed(ctx, dirs, mounted, p.cfg.Clock.Now().Wall.Add(-settles))
	var all []policy.StagedVolume
	for _, v := range found {
		all = append(all, policy.StagedVolume{Driver: v.Driver, Handle: v.Handle})
	}
	return all, err
}

// pluginMounts returns the mount points below plugins/ of an open directory.
func pluginMounts(procDir string, root int) (map[string]bool, error) {
	base, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(root))
	if err != nil {
		return nil, err
	}
	mounted := map[string]bool{}
	err = procfs.EachMountOf(procDir, "self", func(l *procfs.MountLine) error {
		if at, ok := strings.CutPrefix(procfs.Unescape(l.Target), base+"/plugins/"); ok {
			mounted[at] = true
		}
		return nil
	})
	return mounted, err
}
