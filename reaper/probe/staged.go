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
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
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

func (v volData) volume() policy.CSIVolume {
	return policy.CSIVolume{Driver: v.DriverName, Handle: v.VolumeHandle}
}

// parseVolData is false for what does not tell its volume.
func parseVolData(text []byte) (volData, bool) {
	var v volData
	err := json.Unmarshal(text, &v)
	return v, err == nil && v.DriverName != "" && v.VolumeHandle != ""
}

func stagingPath(names []string) string { return csiDir + "/" + strings.Join(names, "/") }

// staging is what one pod's volumes say about where they would be staged.
type staging struct {
	paths   []string                    // below plugins/, each of which would be a mount point
	volumes map[string]policy.CSIVolume // whose each path is, where vol_data.json tells
	left    []string                    // those that exist and are no mount point here
	mounted []string                    // those that are a mount point here, whatever mountinfo says
	unclear string                      // why a volume's staging path is not known
}

// stagingOf works the paths out and looks whether they exist, by the handle of
// plugins/kubernetes.io/csi (negative where there is none).
func stagingOf(o *beneath.Opener, csi int, c *content, recorded map[string]string) staging {
	var s staging
	for _, texts := range [...]map[string]string{c.volData, recorded} {
		for _, path := range slices.Sorted(maps.Keys(texts)) {
			v, ok := parseVolData([]byte(texts[path]))
			if !ok {
				s.unclear = path + " does not tell its volume"
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
		s.unclear = fmt.Sprintf("cannot read %s: %v", path, c.badData[path])
	}
	for _, v := range c.volumes {
		if v.plugin == csiPlugin {
			names := []string{"pv", v.name, "globalmount"}
			s.add(o, csi, stagingPath(names), names)
		}
	}
	return s
}

// of notes whose the path is. A path of two volumes is nobody's: no user of one of them explains
// what is mounted there.
func (s *staging) of(path string, v policy.CSIVolume) {
	if s.volumes == nil {
		s.volumes = map[string]policy.CSIVolume{}
	}
	if old, ok := s.volumes[path]; ok && old != v {
		v = policy.CSIVolume{}
	}
	s.volumes[path] = v
}

const csiPlugin = "kubernetes.io~csi"

func (s *staging) add(o *beneath.Opener, csi int, path string, names []string) {
	if slices.Contains(s.paths, path) {
		return
	}
	s.paths = append(s.paths, path)
	if csi < 0 {
		return
	}
	fd, err := o.Walk(csi, names...)
	switch {
	case err == nil:
		beneath.Close(fd)
		s.left = append(s.left, clean.Name(path))
	case errors.Is(err, unix.EXDEV):
		s.mounted = append(s.mounted, path)
	case beneath.Gone(err), errors.Is(err, unix.EINVAL): // EINVAL: no name of a directory
	default:
		s.unclear = err.Error()
	}
}

// stagedFact answers whether a volume of the pod is still staged or mapped on the node, and is so
// on its account.
func (l *gathering) stagedFact(uid parsers.PodUID, r *podRead) policy.Fact {
	origin := l.rootDir + "/plugins"
	var others []string
	if what, ok := l.blocks.pods[uid]; ok {
		if others = l.blockHolders(uid); others == nil {
			return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
		}
	}
	for _, at := range l.staged(r) {
		user, ok := l.holders.held(uid, r.staging.volumes[at.path], at.path)
		if !ok {
			return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: at.words}
		}
		others = append(others, "pod "+string(user)+" has the volume of plugins/"+clean.Name(at.path)+" mounted")
	}
	if what, ok := l.stagedInTree(r); ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: what}
	}
	_, csiMounts := l.mounts.Below[csiDir]
	for _, err := range [...]error{r.err, l.mounts.Err, l.blocks.err, l.csiErr} {
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
	if len(r.staging.left) > 0 {
		others = append(others, "nothing is mounted at "+strings.Join(r.staging.left, ", "))
	}
	return policy.Fact{Truth: policy.No, Origin: origin, Detail: strings.Join(others, "; ")}
}

// blockHolders says who holds each block volume that has an entry for the pod, or nothing where
// one of them may be the pod's own.
func (l *gathering) blockHolders(uid parsers.PodUID) (words []string) {
	for _, e := range l.blocks.csi[uid] {
		user, ok := l.holders.heldBlock(uid, e.name)
		if !ok || !e.bare {
			return nil
		}
		words = append(words, "pod "+string(user)+" has the block volume "+clean.Name(e.name)+" mapped")
	}
	return slices.Compact(words)
}

// stagedAt is one staging path of a pod's volumes at which something is mounted.
type stagedAt struct{ path, words string }

// staged finds the mounts of any namespace at or below the staging paths.
func (l *gathering) staged(r *podRead) []stagedAt {
	var all []stagedAt
	for _, path := range r.staging.mounted {
		all = append(all, stagedAt{path, "plugins/" + clean.Name(path) + " is a mount point" + unstage(l.rootDir+"/plugins/"+path, "1")})
	}
	for _, path := range r.staging.paths {
		if h, ok := l.mounts.Below[path]; ok && !slices.Contains(r.staging.mounted, path) {
			pid, _ := h.PID()
			all = append(all, stagedAt{path, "staged: " + h.Words() + unstage(h.Target, pid)})
		}
	}
	return all
}

// unstage is what a person can do about a mount that no driver takes away any more.
func unstage(path, pid string) string {
	if command := policy.UmountCommand(path, pid); command != "" {
		return "; if no pod uses the volume any more: " + command
	}
	return ""
}

// stagedInTree finds a mount of one of the volume plugins of the kubelet's own tree whose path has
// the volume's name.
func (l *gathering) stagedInTree(r *podRead) (string, bool) {
	if r.content == nil {
		return "", false
	}
	for _, v := range r.content.volumes {
		plugin := strings.ReplaceAll(v.plugin, "~", "/")
		if !strings.HasPrefix(plugin, "kubernetes.io/") {
			plugin = "kubernetes.io/flexvolume" // vendor~driver
		}
		if h, ok := l.mounts.InPlugin(plugin, v.name); ok && plugin != csiDir {
			return "staged: " + h.Words(), true
		}
	}
	return "", false
}
