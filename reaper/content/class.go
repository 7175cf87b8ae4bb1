package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Class is the kind of an entry below a pod directory, and with it when it
// may go. The zero value is Data: what is not known is a user's.
type Class uint8

// The classes, from the one that only an operator may remove to the one that holds nothing
// of a user's.
const (
	Data      Class = iota // may be a user's: kept until an operator purges it
	Ephemeral              // emptyDir and ephemeral CSI volumes: removed after the retention
	Projected              // secret, configMap, projected, downwardAPI payloads
	Skeleton               // the kubelet's own files, and directories that hold nothing
)

var classNames = [...]string{"data", "ephemeral", "projected", "skeleton"}

// String returns the class's name as in JSON, records and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// MarshalText writes the class as String does.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes. Any other text is data: an older program
// that reads a newer manifest must not purge what it does not know.
func (c *Class) UnmarshalText(b []byte) error {
	*c = Data
	for i, name := range classNames {
		if name == string(b) {
			*c = Class(i)
		}
	}
	return nil
}

// Type is the type of a directory entry, as far as classes need it.
type Type uint8

// The types of entries.
const (
	Other Type = iota // FIFO, socket, device, or not known
	Regular
	Symlink
	Directory
)

// projectedPlugins write payloads that the API server holds; the kubelet makes them again.
var projectedPlugins = map[string]bool{
	"kubernetes.io~secret": true, "kubernetes.io~configmap": true,
	"kubernetes.io~projected": true, "kubernetes.io~downward-api": true,
}

const (
	emptyDirPlugin = "kubernetes.io~empty-dir"
	csiPlugin      = "kubernetes.io~csi"
	// VolData is the CSI plugin's own file beside the mount directory.
	VolData = "vol_data.json"
)

// OfTree returns what class everything below the directory rel has, rel being its path
// from the pod directory in components (empty for the pod directory itself). It is false
// where the children differ and each must be asked for itself.
//
// A tree of Data or Ephemeral is kept or taken as a whole; only when it holds
// nothing but directories is it skeleton.
func OfTree(rel []string) (Class, bool) {
	if len(rel) == 0 {
		return Data, false
	}
	switch rel[0] {
	case "containers":
		return Data, len(rel) > 2
	case "plugins":
		return Data, len(rel) > 3
	case "volumes":
		return classOfVolumeTree(rel)
	case "volume-subpaths":
		// volume-subpaths/VOLUME/CONTAINER/INDEX: a bind target that the kubelet made. What
		// lies in a directory there was written while nothing was mounted.
		return Data, len(rel) > 3
	case "volumeDevices":
		return Data, len(rel) > 2
	}
	return Data, true
}

// classOfVolumeTree: volumes/PLUGIN/VOLUME is the volume path; for CSI the mount point is
// volumes/kubernetes.io~csi/VOLUME/mount, with vol_data.json beside it.
func classOfVolumeTree(rel []string) (Class, bool) {
	if len(rel) < 3 {
		return Data, false
	}
	switch plugin := rel[1]; {
	case projectedPlugins[plugin]:
		return Projected, true
	case plugin == emptyDirPlugin:
		return Ephemeral, true
	case plugin == csiPlugin:
		return Data, len(rel) > 3
	}
	return Data, true
}

// Of returns what class the entry at rel is that is no directory; size is its size in
// bytes. Directories have the class of what they hold: OfTree.
func Of(rel []string, t Type, size int64) Class {
	if c, ok := OfTree(rel[:len(rel)-1]); ok {
		return c
	}
	regular := t == Regular
	switch {
	case len(rel) == 1 && rel[0] == "etc-hosts" && regular:
		return Skeleton
	case rel[0] == "containers" && len(rel) == 3 && regular:
		// containers/NAME/HASH: the termination message that the kubelet has the container write.
		return Skeleton
	case rel[0] == "plugins" && len(rel) == 4 && rel[3] == "ready" && regular:
		return Skeleton
	case rel[0] == "volumes" && len(rel) == 4 && rel[1] == csiPlugin && rel[3] == VolData && regular:
		return Skeleton
	case rel[0] == "volume-subpaths" && len(rel) == 4 && regular && size == 0:
		return Skeleton
	case rel[0] == "volumeDevices" && len(rel) == 3 && t == Symlink:
		return Skeleton
	}
	return Data
}

// BiggestText is the most that is read of a file for its class: the kubelet writes some 150 bytes.
const BiggestText = 4096

// ByText reports whether the class of the file at rel takes its content: then Of calls it
// data, and OfText has the last word. These are pods/UID/userns, in which kubelets since
// 1.25 keep which host UIDs a pod with hostUsers: false has, and .DIGITS, as which they write
// it first (writeMappingsToFile of pkg/kubelet/userns, pkg/kubelet/util/store).
func ByText(rel []string, t Type, size int64) bool {
	if len(rel) != 1 || t != Regular || size > BiggestText {
		return false
	}
	digits, hidden := strings.CutPrefix(rel[0], ".")
	return rel[0] == "userns" || hidden && digits != "" && strings.Trim(digits, "0123456789") == ""
}

type idMapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// OfText is the class of a file that ByText asks for. What the kubelet wrote is skeleton:
// that, byte for byte but for white space, is what it reads as.
func OfText(rel []string, text []byte) Class {
	if len(text) == 0 && rel[0] != "userns" {
		return Skeleton // it was killed before it wrote
	}
	var v struct {
		UIDs []idMapping `json:"uidMappings"`
		GIDs []idMapping `json:"gidMappings"`
	}
	var compact bytes.Buffer
	if json.Unmarshal(text, &v) != nil || len(v.UIDs) == 0 || len(v.GIDs) == 0 || json.Compact(&compact, text) != nil {
		return Data
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, compact.Bytes()) {
		return Data
	}
	return Skeleton
}

// IsCSIVolume reports whether rel is the directory of a CSI volume, which holds vol_data.json.
func IsCSIVolume(rel []string) bool {
	return len(rel) == 3 && rel[0] == "volumes" && rel[1] == csiPlugin
}

// ephemeral is what the kubelet writes of a CSI volume in its pod's spec.
const ephemeral = "Ephemeral"

// EphemeralCSI reports whether a vol_data.json is that of a CSI volume that lives as long as its
// pod, as secrets-store's do. The kubelet reads it into the same map.
func EphemeralCSI(volData []byte) bool {
	if !bytes.Contains(volData, []byte(ephemeral)) {
		return false // written in another way it would be data, which keeps more
	}
	var v map[string]string
	return json.Unmarshal(volData, &v) == nil && v["volumeLifecycleMode"] == ephemeral
}

// InCSI is OfTree below the directory of a CSI volume, of which it is known whether it
// is ephemeral: what lies where it was mounted is as an emptyDir's then.
func InCSI(rel []string, ephemeral bool) (Class, bool) {
	class, ok := OfTree(rel)
	if ok && ephemeral && len(rel) == 4 && IsCSIVolume(rel[:3]) && rel[3] == "mount" {
		class = Ephemeral
	}
	return class, ok
}

// MadeFirst reports whether the kubelet makes this file of a pod before a container of it runs: its etc-hosts, an empty
// termination log, the mark of an emptyDir that was set up, and vol_data.json, which it writes before it calls the CSI
// driver. A directory made again that holds nothing else, but for directories, is not in use. The kubelet's userns is left
// out: it describes the user namespace of the sandbox that the kubelet starts now.
func MadeFirst(rel []string, t Type, size int64) bool {
	if Of(rel, t, size) != Skeleton {
		return false
	}
	switch rel[0] {
	case "etc-hosts", "volumes":
		return true
	case "containers", "plugins":
		return size == 0
	}
	return false
}

// Set is the set of classes that a removal may remove.
type Set uint8

// SetOf returns the set of the given classes.
func SetOf(cs ...Class) Set {
	var s Set
	for _, c := range cs {
		s |= 1 << c
	}
	return s
}

// Has reports whether the set holds c.
func (s Set) Has(c Class) bool { return s&(1<<c) != 0 }

// The sets that exist: of an entry that is gone, after confirm, after retention, and by an operator's command.
var (
	None     = SetOf()
	Payloads = SetOf(Skeleton, Projected)
	Aged     = SetOf(Skeleton, Projected, Ephemeral)
	All      = SetOf(Skeleton, Projected, Ephemeral, Data)
)
