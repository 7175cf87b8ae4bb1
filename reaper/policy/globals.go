package policy

// StagedVolume is a CSI volume that is mounted below plugins/kubernetes.io/csi for all pods of the node, for display.
type StagedVolume struct {
	Driver string `json:"driver"`
	Handle string `json:"volume_handle"`
}
