package reading

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// CSIVolume identifies a CSI volume on this node: its driver and its handle
// there. The zero value is no volume.
type CSIVolume struct {
	Driver, Handle string
}

// VolumeUser is a pod that has a volume.
type VolumeUser struct {
	UID    parsers.PodUID
	Volume CSIVolume
	// Lives: the runtime has a sandbox or container of the pod, or a process is in its cgroup.
	// Mounted: the volume's directory of the pod itself is a mount point now.
	Lives, Mounted bool
}

// KeepsStaged reports whether the volume is staged for the pod, and not for the dead one that has it, too. The kubelet
// unstages a volume after the last of its pods on the node. A successor that lives and has it mounted is one that the
// kubelet knows; one without a mount may wait for the volume, and be forgotten once it is deleted.
func (u VolumeUser) KeepsStaged(dead parsers.PodUID, v CSIVolume) bool {
	return v.Driver != "" && v.Handle != "" && u.Volume == v && u.UID != "" && u.UID != dead && u.Lives && u.Mounted
}

// StagedUser is a user of a volume that is mounted as a file system.
type StagedUser struct {
	VolumeUser
	Paths []string // at which the volume would be staged, below plugins/
}

// VolumeUsers are the pods that live and the CSI volumes that they have. They are read only if a volume of a dead pod is
// staged.
type VolumeUsers struct {
	Files  []StagedUser
	Blocks map[string][]VolumeUser // by the volume's name, for block volumes
}

// BlockVolume is the block volume of a name: the directory that it is in names it, for all its pods.
func BlockVolume(name string) CSIVolume { return CSIVolume{Driver: "kubernetes.io~csi", Handle: name} }

// fileUser returns the pod for which a dead pod's volume is staged at path.
func (u *VolumeUsers) fileUser(dead parsers.PodUID, v CSIVolume, path string) (parsers.PodUID, bool) {
	for _, f := range u.Files {
		if f.KeepsStaged(dead, v) && slices.Contains(f.Paths, path) {
			return f.UID, true
		}
	}
	return "", false
}

// blockUser does so for a block volume.
func (u *VolumeUsers) blockUser(dead parsers.PodUID, name string) (parsers.PodUID, bool) {
	for _, b := range u.Blocks[name] {
		if b.KeepsStaged(dead, BlockVolume(name)) {
			return b.UID, true
		}
	}
	return "", false
}

// StagedMount is a mount at or below a path at which a volume of the pod would be staged.
type StagedMount struct {
	Path   string    // below plugins/
	Shown  string    // the same, for display
	Volume CSIVolume // whose the path is; the zero value if that is not known, or several volumes have it
	What   string    // the mount, for display
}

// BlockEntry is an entry that a CSI block volume has for the pod.
type BlockEntry struct {
	Name  string // the volume's
	Shown string // the same, for display
	// Bare is true where nothing is left at it but the file that was mounted on.
	Bare bool
}

// PodVolumes is what one look has found of the volumes of one pod.
type PodVolumes struct {
	Pod    parsers.PodUID
	Mounts []StagedMount
	// Mapped is an entry that a block volume has for the pod, for display; "" where there is none.
	Mapped string
	// Blocks are all such entries, where all are of CSI volumes; else none.
	Blocks []BlockEntry
	// InTree is a mount of a plugin of the kubelet's own tree, for display; "" where there is none.
	InTree string

	// Err is why not all of that was found.
	Err error
	// Listed reports that it is known which volumes the pod has, and Unlisted why it is not.
	Listed   bool
	Unlisted string
	// Unclear is why it is not known where one of them would be staged, and AnyCSI whether a CSI
	// volume is staged on the node at all.
	Unclear string
	AnyCSI  bool
	// Left are the paths, for display, that are there and at which nothing is mounted.
	Left []string
}

// Staged reports whether a volume is still staged or mapped on the node for the pod.
func (o *PodVolumes) Staged(origin string, users *VolumeUsers) policy.Fact {
	f := policy.Fact{Origin: origin}
	others, own := o.usedBy(users)
	switch {
	case own != "":
		f.Truth, f.Detail = policy.Yes, own
	case o.InTree != "":
		f.Truth, f.Detail = policy.Yes, o.InTree
	case o.Err != nil:
		f.Detail = o.Err.Error()
	case !o.Listed:
		f.Detail = cmp.Or(o.Unlisted, "the pod's volumes are not known")
	case o.Unclear != "" && o.AnyCSI:
		f.Detail = o.Unclear + ", and CSI volumes are staged here"
	default:
		if len(o.Left) > 0 {
			others = append(others, "nothing is mounted at "+strings.Join(o.Left, ", "))
		}
		f.Truth, f.Detail = policy.No, strings.Join(others, "; ")
	}
	return f
}

// usedBy returns which other pods use what is staged or mapped of the pod's volumes, or what is the pod's own.
func (o *PodVolumes) usedBy(users *VolumeUsers) (others []string, own string) {
	if o.Mapped != "" {
		if others = o.blockUsers(users); others == nil {
			return nil, o.Mapped
		}
	}
	for _, at := range o.Mounts {
		user, ok := users.fileUser(o.Pod, at.Volume, at.Path)
		if !ok {
			return nil, at.What
		}
		others = append(others, "pod "+string(user)+" has the volume of plugins/"+at.Shown+" mounted")
	}
	return others, ""
}

// blockUsers returns which pods use the block volumes that have an entry for the pod, or nothing if one may be the pod's
// own.
func (o *PodVolumes) blockUsers(users *VolumeUsers) (words []string) {
	for _, b := range o.Blocks {
		user, ok := users.blockUser(o.Pod, b.Name)
		if !ok || !b.Bare {
			return nil
		}
		words = append(words, "pod "+string(user)+" has the block volume "+b.Shown+" mapped")
	}
	return slices.Compact(words)
}
