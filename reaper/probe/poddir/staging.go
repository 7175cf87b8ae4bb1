package poddir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// volData is what vol_data.json must say for its volume's staging path to be known.
type volData struct {
	SpecVolID    string `json:"specVolID"`
	VolumeHandle string `json:"volumeHandle"`
	DriverName   string `json:"driverName"`
}

// CSIDir is where the CSI plugin stages, as a path below plugins/.
const CSIDir = "kubernetes.io/csi"

// globalMounts are the staging paths of a volume below plugins/kubernetes.io/csi, of the
// kubelet since 1.24 and before.
func (v volData) globalMounts() [][]string {
	sum := sha256.Sum256([]byte(v.VolumeHandle))
	paths := [][]string{{v.DriverName, hex.EncodeToString(sum[:]), "globalmount"}}
	if v.SpecVolID != "" {
		paths = append(paths, []string{"pv", v.SpecVolID, "globalmount"})
	}
	return paths
}

func (v volData) volume() reading.CSIVolume {
	return reading.CSIVolume{Driver: v.DriverName, Handle: v.VolumeHandle}
}

// parseVolData is false for what does not tell its volume.
func parseVolData(text []byte) (volData, bool) {
	var v volData
	err := json.Unmarshal(text, &v)
	return v, err == nil && v.DriverName != "" && v.VolumeHandle != ""
}

func stagingPath(names []string) string { return CSIDir + "/" + strings.Join(names, "/") }

// Staging is what one pod's volumes say about where they would be staged.
type Staging struct {
	Paths   []string                     // below plugins/, each of which would be a mount point
	Volumes map[string]reading.CSIVolume // whose each path is, where vol_data.json tells
	Left    []string                     // those that exist and are no mount point here
	Mounted []string                     // those that are a mount point here, whatever mountinfo says
	Unclear string                       // why a volume's staging path is not known
}

// stagingOf works the paths out and looks whether they exist, by the handle of
// plugins/kubernetes.io/csi (negative where there is none).
func stagingOf(o *beneath.Opener, csi int, c *Content, recorded map[string]string) Staging {
	var s Staging
	for _, texts := range [...]map[string]string{c.VolData, recorded} {
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			v, ok := parseVolData([]byte(texts[path]))
			if !ok {
				s.Unclear = path + " does not tell its volume"
				continue
			}
			for _, names := range v.globalMounts() {
				path := stagingPath(names)
				s.of(path, v.volume())
				s.add(o, csi, path, names)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.badData)) {
		s.Unclear = fmt.Sprintf("cannot read %s: %v", path, c.badData[path])
	}
	for _, v := range c.Volumes {
		if v.Plugin == csiPlugin {
			names := []string{"pv", v.Name, "globalmount"}
			s.add(o, csi, stagingPath(names), names)
		}
	}
	return s
}

// of notes whose the path is. A path of two volumes is nobody's: no user of one of them explains
// what is mounted there.
func (s *Staging) of(path string, v reading.CSIVolume) {
	if s.Volumes == nil {
		s.Volumes = map[string]reading.CSIVolume{}
	}
	if old, ok := s.Volumes[path]; ok && old != v {
		v = reading.CSIVolume{}
	}
	s.Volumes[path] = v
}

const csiPlugin = "kubernetes.io~csi"

func (s *Staging) add(o *beneath.Opener, csi int, path string, names []string) {
	if slices.Contains(s.Paths, path) {
		return
	}
	s.Paths = append(s.Paths, path)
	if csi < 0 {
		return
	}
	fd, err := o.Walk(csi, names...)
	switch {
	case err == nil:
		beneath.Close(fd)
		s.Left = append(s.Left, clean.Name(path))
	case errors.Is(err, unix.EXDEV):
		s.Mounted = append(s.Mounted, path)
	case beneath.Gone(err), errors.Is(err, unix.EINVAL): // EINVAL: no name of a directory
	default:
		s.Unclear = err.Error()
	}
}
