package source

import (
	"os"
	"path/filepath"
	"slices"
)

// RKE2Log is where RKE2 has its kubelet write: nothing of that comes to the journal
// (docs.rke2.io, "Logging").
const RKE2Log = "/var/lib/rancher/rke2/agent/logs/kubelet.log"

// LogFiles returns the files to follow, each once: those that are named, where sources has file
// or no journal is read; with auto RKE2's where RKE2's agent is installed; and the kubelet's own.
func LogFiles(sources, named []string, journal bool, rke2 string, own ...string) []string {
	var paths []string
	automatic := slices.Contains(sources, "auto")
	if slices.Contains(sources, "file") || (automatic && !journal) {
		paths = slices.Clone(named)
	}
	agent := filepath.Dir(filepath.Dir(rke2))
	if info, err := os.Stat(agent); automatic && err == nil && info.IsDir() && !slices.Contains(paths, rke2) {
		paths = append(paths, rke2)
	}
	for _, path := range own {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
