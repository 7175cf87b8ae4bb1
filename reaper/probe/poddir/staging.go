package poddir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// volData has the fields of vol_data.json from which the staging path follows.
type volData struct {
	SpecVolID    string `json:"specVolID"`
	VolumeHandle string `json:"volumeHandle"`
	DriverName   string `json:"driverName"`
}

// CSIDir is where the CSI plugin stages volumes, below plugins/.
const CSIDir = "kubernetes.io/csi"

// staged is a staging path below plugins/kubernetes.io/csi.
type staged [3]string

func (s staged) path() string { return CSIDir + "/" + s[0] + "/" + s[1] + "/" + s[2] }

// stagedPV returns the staging path of kubelets before 1.24.
func stagedPV(name string) staged { return staged{"pv", name, "globalmount"} }

// globalMounts returns the staging paths of a volume, of kubelets since 1.24 and before.
func (v volData) globalMounts() []staged {
	sum := sha256.Sum256([]byte(v.VolumeHandle))
	paths := []staged{{v.DriverName, hex.EncodeToString(sum[:]), "globalmount"}}
	if v.SpecVolID != "" {
		paths = append(paths, stagedPV(v.SpecVolID))
	}
	return paths
}

func (v volData) volume() reading.CSIVolume {
	return reading.CSIVolume{Driver: v.DriverName, Handle: v.VolumeHandle}
}

// parseVolData parses vol_data.json, and returns false if it does not name its volume.
func parseVolData(text []byte) (volData, bool) {
	var v volData
	err := json.Unmarshal(text, &v)
	return v, err == nil && v.DriverName != "" && v.VolumeHandle != ""
}

// Staging has the paths at which one pod's volumes would be staged.
type Staging struct {
	Paths   []StagingPath
	Left    []string // paths that exist and are no mount points here, for messages
	Unclear string   // why a volume's staging path is unknown
}

// StagingPath is the path of one volume.
type StagingPath struct {
	Path    string            // below plugins/
	Volume  reading.CSIVolume // by vol_data.json
	Mounted bool              // it is a mount point in this mount namespace

	known bool // Volume is set, also if it is none
}

// stagingOf returns the staging paths, and opens each below csi, the directory plugins/kubernetes.io/csi or
// nil.
func stagingOf(csi *beneath.Dir, c *Content, recorded map[string]string) Staging {
	var s Staging
	for _, texts := range [...]map[string]string{c.VolData, recorded} {
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			v, ok := parseVolData([]byte(texts[path]))
			if !ok {
				s.Unclear = path + " does not name its volume"
				continue
			}
			for _, at := range v.globalMounts() {
				s.add(csi, at).setVolume(v.volume())
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.badData)) {
		s.Unclear = fmt.Sprintf("cannot read %s: %v", path, c.badData[path])
	}
	for _, v := range c.Volumes {
		if v.Plugin == csiPlugin {
			s.add(csi, stagedPV(v.Name))
		}
	}
	return s
}

// setVolume sets the volume. A path of two volumes has none: a user of either does not explain the mount.
func (p *StagingPath) setVolume(v reading.CSIVolume) {
	if p.known && p.Volume != v {
		v = reading.CSIVolume{}
	}
	p.Volume, p.known = v, true
}

const csiPlugin = "kubernetes.io~csi"

// add opens the path, unless it was added before. The result is valid until the next add.
func (s *Staging) add(csi *beneath.Dir, at staged) *StagingPath {
	path := at.path()
	if i := slices.IndexFunc(s.Paths, func(p StagingPath) bool { return p.Path == path }); i >= 0 {
		return &s.Paths[i]
	}
	s.Paths = append(s.Paths, StagingPath{Path: path})
	added := &s.Paths[len(s.Paths)-1]
	if csi == nil {
		return added
	}
	dir, err := csi.Walk(at[:]...)
	switch {
	case err == nil:
		dir.Close()
		s.Left = append(s.Left, clean.Name(path))
	case errors.Is(err, unix.EXDEV):
		added.Mounted = true
	case beneath.Gone(err), errors.Is(err, unix.EINVAL): // EINVAL: not the name of a directory
	default:
		s.Unclear = err.Error()
	}
	return added
}
