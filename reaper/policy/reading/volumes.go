package reading

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// CSIVolume is what tells a CSI volume from another on this node: its driver and its handle
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

// KeepsStaged reports whether the volume is staged for the pod, and not for the dead one that has it, too.
// The kubelet stages a volume once for all its pods on the node, and unstages it after the last
// of them: a successor that lives and has the volume mounted is one that the kubelet knows, and
// with it it will unstage the volume. Without its own mount it may be a pod that waits for the
// volume, of which the kubelet knows nothing once it is deleted.
func (u VolumeUser) KeepsStaged(dead parsers.PodUID, v CSIVolume) bool {
	return v.Driver != "" && v.Handle != "" && u.Volume == v && u.UID != "" && u.UID != dead && u.Lives && u.Mounted
}

// StagedUser is a user of a volume that is mounted as a file system.
type StagedUser struct {
	VolumeUser
	Paths []string // at which the volume would be staged, below plugins/
}

// VolumeUsers are the pods that live and the CSI volumes that they have. They are asked for only where
// a volume of a dead pod is staged; nobody is known to use what was not asked for.
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
