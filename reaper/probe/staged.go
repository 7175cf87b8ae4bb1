package probe

import (
	"context"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
)

// livingVolumes finds the users of the volumes that are staged and that some pod of reads has.
func (l *gathering) livingVolumes(ctx context.Context, reads []*poddir.Answer) poddir.Users {
	staged := slices.ContainsFunc(reads, func(r *poddir.Answer) bool { return len(l.staged(r)) > 0 })
	return l.probe.dirs.Users(ctx, l.Dirs, l.blocks, staged, func(uid parsers.PodUID) bool { return l.lives(ctx, uid) })
}

// lives says whether the runtime has something of the pod, or a process is in its cgroup.
func (l *gathering) lives(ctx context.Context, uid parsers.PodUID) bool {
	return l.runtime.Sandboxes[uid] != "" || l.runtime.Containers[uid] != "" || l.cgroups.HasProcess(ctx, uid)
}

// stagedFact answers whether a volume of the pod is still staged or mapped on the node, and is so
// on its account.
func (l *gathering) stagedFact(uid parsers.PodUID, r *poddir.Answer) policy.Fact {
	origin := l.rootDir + "/plugins"
	var others []string
	if what, ok := l.blocks.Pods[uid]; ok {
		if others = l.blockHolders(uid); others == nil {
			return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
		}
	}
	for _, at := range l.staged(r) {
		user, ok := l.holders.Holder(uid, r.Staging.Volumes[at.path], at.path)
		if !ok {
			return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: at.words}
		}
		others = append(others, "pod "+string(user)+" has the volume of plugins/"+clean.Name(at.path)+" mounted")
	}
	if what, ok := l.stagedInTree(r); ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
	}
	_, csiMounts := l.mounts.Below[poddir.CSIDir]
	for _, err := range [...]error{r.Err, l.mounts.Err, l.blocks.Err, l.NotOpened()} {
		if err != nil {
			return policy.Fact{Origin: origin, Detail: err.Error()}
		}
	}
	if r.Alive != "" {
		return policy.Fact{Origin: origin, Detail: r.Alive}
	}
	if r.Content == nil {
		return policy.Fact{Origin: origin, Detail: "the pod's volumes are not known"}
	}
	if err := r.Content.Unlisted; err != nil {
		return policy.Fact{Origin: origin, Detail: "it is not known which volumes the pod has: " + err.Error()}
	}
	if r.Staging.Unclear != "" && csiMounts {
		return policy.Fact{Origin: origin, Detail: r.Staging.Unclear + ", and CSI volumes are staged here"}
	}
	if len(r.Staging.Left) > 0 {
		others = append(others, "nothing is mounted at "+strings.Join(r.Staging.Left, ", "))
	}
	return policy.Fact{Truth: policy.No, Origin: origin, Detail: strings.Join(others, "; ")}
}

// blockHolders says who holds each block volume that has an entry for the pod, or nothing where
// one of them may be the pod's own.
func (l *gathering) blockHolders(uid parsers.PodUID) (words []string) {
	for _, e := range l.blocks.CSI[uid] {
		user, ok := l.holders.BlockHolder(uid, e.Name)
		if !ok || !e.Bare {
			return nil
		}
		words = append(words, "pod "+string(user)+" has the block volume "+clean.Name(e.Name)+" mapped")
	}
	return slices.Compact(words)
}

// stagedAt is one staging path of a pod's volumes at which something is mounted.
type stagedAt struct{ path, words string }

// staged finds the mounts of any namespace at or below the staging paths.
func (l *gathering) staged(r *poddir.Answer) []stagedAt {
	var all []stagedAt
	for _, path := range r.Staging.Mounted {
		all = append(all, stagedAt{path, "plugins/" + clean.Name(path) + " is a mount point" + unstage(l.rootDir+"/plugins/"+path, "1")})
	}
	for _, path := range r.Staging.Paths {
		if h, ok := l.mounts.Below[path]; ok && !slices.Contains(r.Staging.Mounted, path) {
			pid, _ := h.PID()
			all = append(all, stagedAt{path, "staged: " + h.Words() + unstage(h.Target, pid)})
		}
	}
	return all
}

// unstage is what a person can do about a mount that no driver takes away any more.
func unstage(path, pid string) string {
	if command := mounts.UmountCommand(path, pid); command != "" {
		return "; if no pod uses the volume any more: " + command
	}
	return ""
}

// stagedInTree finds a mount of one of the volume plugins of the kubelet's own tree whose path has
// the volume's name.
func (l *gathering) stagedInTree(r *poddir.Answer) (string, bool) {
	if r.Content == nil {
		return "", false
	}
	for _, v := range r.Content.Volumes {
		plugin := strings.ReplaceAll(v.Plugin, "~", "/")
		if !strings.HasPrefix(plugin, "kubernetes.io/") {
			plugin = "kubernetes.io/flexvolume" // vendor~driver
		}
		if h, ok := l.mounts.InPlugin(plugin, v.Name); ok && plugin != poddir.CSIDir {
			return "staged: " + h.Words(), true
		}
	}
	return "", false
}
