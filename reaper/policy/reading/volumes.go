package reading

import "github.com/orphan-reaper/orphan-reaper/parsers"

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

// Holds says whether the pod is why the volume is staged, and not the dead one that has it, too.
// The kubelet stages a volume once for all its pods on the node, and unstages it after the last
// of them: a successor that lives and has the volume mounted is one that the kubelet knows, and
// with it it will unstage the volume. Without its own mount it may be a pod that waits for the
// volume, of which the kubelet knows nothing once it is deleted.
func (u VolumeUser) Holds(dead parsers.PodUID, v CSIVolume) bool {
	return v.Driver != "" && v.Handle != "" && u.Volume == v && u.UID != "" && u.UID != dead && u.Lives && u.Mounted
}
