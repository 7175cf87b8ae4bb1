package policy

import "time"

// GlobalMount is a place below plugins/kubernetes.io at which a volume is staged for all pods of the node, for display.
type GlobalMount struct {
	Path           string    // below the kubelet's root directory
	Driver, Handle string    // "" where they are not known
	Since          time.Time // when the kubelet wrote vol_data.json, or else when the directory last changed
	// Mounted reports whether anything is mounted there, Wanted whether a pod directory of this node has the volume,
	// and Attached whether a VolumeAttachment has it for this node.
	Mounted, Wanted, Attached Fact
	Lives                     bool // a living pod uses it
}

// GlobalMounts are all of a node.
type GlobalMounts struct {
	All  []GlobalMount
	Node string // this node's name at the API server, "" where it is not known
	Read bool   // all were read
}
