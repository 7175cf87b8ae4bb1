package probe

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

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// volData is what vol_data.json must say for its volume's staging path to be known.
type volData struct {
	SpecVolID    string `json:"specVolID"`
	VolumeHandle string `json:"volumeHandle"`
	DriverName   string `json:"driverName"`
}

// csiDir is where the CSI plugin stages, as a path below plugins/.
const csiDir = "kubernetes.io/csi"

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

// staging is what one pod's volumes say about where they would be staged.
type staging struct {
	paths   []string // below plugins/, each of which would be a mount point
	left    []string // those that exist and are no mount point here
	mounted string   // one that is a mount point here, whatever mountinfo says
	unclear string   // why a volume's staging path is not known
}

// stagingOf works the paths out and looks whether they exist, by the handle of
// plugins/kubernetes.io/csi (negative where there is none).
func stagingOf(o opener, csi int, c *content, recorded map[string]string) staging {
	var s staging
	for _, texts := range [...]map[string]string{c.volData, recorded} {
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			var v volData
			if err := json.Unmarshal([]byte(texts[path]), &v); err != nil || v.DriverName == "" || v.VolumeHandle == "" {
				s.unclear = path + " does not tell its volume"
				continue
			}
			for _, names := range v.globalMounts() {
				s.add(o, csi, names)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.badData)) {
		s.unclear = fmt.Sprintf("cannot read %s: %v", path, c.badData[path])
	}
	for _, v := range c.volumes {
		if v.plugin == csiPlugin {
			s.add(o, csi, []string{"pv", v.name, "globalmount"})
		}
	}
	return s
}

const csiPlugin = "kubernetes.io~csi"

func (s *staging) add(o opener, csi int, names []string) {
	path := csiDir + "/" + strings.Join(names, "/")
	if slices.Contains(s.paths, path) {
		return
	}
	s.paths = append(s.paths, path)
	if csi < 0 {
		return
	}
	fd, err := o.walk(csi, names...)
	switch {
	case err == nil:
		closeFD(fd)
		s.left = append(s.left, clean(path))
	case errors.Is(err, errMount):
		s.mounted = clean(path)
	case gone(err), errors.Is(err, unix.EINVAL): // EINVAL: no name of a directory
	default:
		s.unclear = err.Error()
	}
}

// stagedFact answers whether a volume of the pod is still staged or mapped on the node.
func (l *looking) stagedFact(uid parsers.PodUID, r *podRead) policy.Fact {
	origin := l.rootDir + "/plugins"
	if what, ok := l.blocks.pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
	}
	if what, ok := l.stagedAt(r); ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
	}
	_, csiMounts := l.mounts.below[csiDir]
	for _, err := range [...]error{r.err, l.mounts.err, l.blocks.err, l.csiErr} {
		if err != nil {
			return policy.Fact{Origin: origin, Detail: err.Error()}
		}
	}
	if r.alive != "" {
		return policy.Fact{Origin: origin, Detail: r.alive}
	}
	if r.content == nil {
		return policy.Fact{Origin: origin, Detail: "the pod's volumes are not known"}
	}
	if err := r.content.unlisted; err != nil {
		return policy.Fact{Origin: origin, Detail: "it is not known which volumes the pod has: " + err.Error()}
	}
	if r.staging.unclear != "" && csiMounts {
		return policy.Fact{Origin: origin, Detail: r.staging.unclear + ", and CSI volumes are staged here"}
	}
	var detail string
	if len(r.staging.left) > 0 {
		detail = "nothing is mounted at " + strings.Join(r.staging.left, ", ")
	}
	return policy.Fact{Truth: policy.No, Origin: origin, Detail: detail}
}

// stagedAt looks for a mount of any namespace at or below a staging path, and for one of
// the volume plugins of the kubelet's own tree whose path has the volume's name.
func (l *looking) stagedAt(r *podRead) (string, bool) {
	if r.staging.mounted != "" {
		return "plugins/" + r.staging.mounted + " is a mount point", true
	}
	for _, path := range r.staging.paths {
		if h, ok := l.mounts.below[path]; ok {
			return "staged: " + h.words(l.probe.cfg.ProcDir), true
		}
	}
	if r.content == nil {
		return "", false
	}
	for _, v := range r.content.volumes {
		plugin := strings.ReplaceAll(v.plugin, "~", "/")
		if !strings.HasPrefix(plugin, "kubernetes.io/") {
			plugin = "kubernetes.io/flexvolume" // vendor~driver
		}
		if h, ok := l.mounts.named[plugin+"\x00"+v.name]; ok && plugin != csiDir {
			return "staged: " + h.words(l.probe.cfg.ProcDir), true
		}
	}
	return "", false
}
