package heard

import (
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Teardown is the kubelet's last word on a volume that its volume manager cannot tear down.
type Teardown struct {
	At   policy.Instant `json:"at"`
	Path string         `json:"path,omitempty"` // the volume path it named
	// Volumes holds the last word on each volume, by the kubelet's name for it.
	Volumes map[string]policy.VolumeTeardown `json:"volumes,omitempty"`
}

// mostVolumes bounds what is remembered of one pod: a file's lines can be forged. Of a pod
// with more volumes that fail nothing is cleared.
const mostVolumes = 16

// add takes one tear-down error into what is known of a pod's volumes.
func (h *Teardown) add(s parsers.Sighting, at policy.Instant) {
	h.At, h.Path = at, s.Path
	if h.Volumes = maps.Clone(h.Volumes); h.Volumes == nil {
		h.Volumes = map[string]policy.VolumeTeardown{}
	}
	v := policy.VolumeTeardown{At: at}
	if _, ok := contents.SplitLeaf(s.Leaf); ok {
		v.Leaf = s.Leaf
	}
	name := s.Volume
	if _, ok := h.Volumes[name]; !ok && len(h.Volumes) >= mostVolumes {
		name, v.Leaf = "", "" // one too many: a volume without a leaf
	}
	h.Volumes[name] = v
}

// size is about how many bytes the names and paths take.
func (h Teardown) size() int {
	n := len(h.Path)
	for name, v := range h.Volumes {
		n += 128 + len(name) + len(v.Leaf)
	}
	return n
}

// bare is a pod that is held by a volume of which no more is known.
func (h Teardown) bare(at policy.Instant) Teardown {
	return Teardown{At: at, Volumes: map[string]policy.VolumeTeardown{"": {At: at}}}
}

// leaves are the directories that the kubelet cannot remove since they are not empty, or
// none where it fails for any other reason, too. An error that it no longer repeats is over.
func (h Teardown) leaves(now policy.Instant) []policy.VolumeTeardown {
	var all []policy.VolumeTeardown
	for _, v := range h.Volumes {
		if since, ok := now.Since(v.At); v.Leaf == "" && ok && since > policy.LastWord {
			continue
		}
		if v.Leaf == "" {
			return nil
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b policy.VolumeTeardown) int { return strings.Compare(a.Leaf, b.Leaf) })
	return all
}
