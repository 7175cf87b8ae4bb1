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

// volData is what vol_data.json must have for its volume's staging path to be known.
type volData struct {
	SpecVolID    string `json:"specVolID"`
	VolumeHandle string `json:"volumeHandle"`
	DriverName   string `json:"driverName"`
}

// CSIDir is where the CSI plugin stages, as a path below plugins/.
const CSIDir = "kubernetes.io/csi"

// staged is a staging path below plugins/kubernetes.io/csi.
type staged [3]string

func (s staged) path() string { return CSIDir + "/" + s[0] + "/" + s[1] + "/" + s[2] }

// ofPV is that of the kubelet before 1.24.
func ofPV(name string) staged { return staged{"pv", name, "globalmount"} }

// globalMounts are the staging paths of a volume, of the kubelet since 1.24 and before.
func (v volData) globalMounts() []staged {
	sum := sha256.Sum256([]byte(v.VolumeHandle))
	paths := []staged{{v.DriverName, hex.EncodeToString(sum[:]), "globalmount"}}
	if v.SpecVolID != "" {
		paths = append(paths, ofPV(v.SpecVolID))
	}
	return paths
}

func (v volData) volume() reading.CSIVolume {
	return reading.CSIVolume{Driver: v.DriverName, Handle: v.VolumeHandle}
}

// parseVolData is false for what does not name its volume.
func parseVolData(text []byte) (volData, bool) {
	var v volData
	err := json.Unmarshal(text, &v)
	return v, err == nil && v.DriverName != "" && v.VolumeHandle != ""
}

// Staging is where one pod's volumes would be staged.
type Staging struct {
	Paths   []StagingPath
	Left    []string // those that exist and are no mount point here, for messages
	Unclear string   // why a volume's staging path is not known
}

// StagingPath is one, as a path below plugins/, which would be a mount point.
type StagingPath struct {
	Path    string
	Volume  reading.CSIVolume // whose it is, by vol_data.json
	Mounted bool              // it is a mount point here, by the open itself

	known bool // vol_data.json names it
}

// stagingOf works the paths out and looks whether they exist, by the handle of
// plugins/kubernetes.io/csi (nil where there is none).
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
				s.add(csi, at).of(v.volume())
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.badData)) {
		s.Unclear = fmt.Sprintf("cannot read %s: %v", path, c.badData[path])
	}
	for _, v := range c.Volumes {
		if v.Plugin == csiPlugin {
			s.add(csi, ofPV(v.Name))
		}
	}
	return s
}

// of records whose the path is. A path of two volumes is of none: no user of one of them explains what is mounted there.
func (p *StagingPath) of(v reading.CSIVolume) {
	if p.known && p.Volume != v {
		v = reading.CSIVolume{}
	}
	p.Volume, p.known = v, true
}

const csiPlugin = "kubernetes.io~csi"

// add looks what is at the path, once. What it returns lasts until the next.
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
	case beneath.Gone(err), errors.Is(err, unix.EINVAL): // EINVAL: no name of a directory
	default:
		s.Unclear = err.Error()
	}
	return added
}
