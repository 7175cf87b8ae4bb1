package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// A CSI volume is staged for all pods of the node at plugins/kubernetes.io/csi/DRIVER/HASH/globalmount, before 1.24 at
// …/csi/pv/PV/globalmount, and a block volume below …/csi/volumeDevices/staging/PV. The kubelet unstages it when the last pod
// that uses it is gone, and finds it by the pod's vol_data.json: if that is moved first, NodeUnstage never runs.

const (
	csiDir     = "plugins/kubernetes.io/csi"
	csiPlugin  = "kubernetes.io~csi"
	stagedMark = "/globalmount"
	blockMark  = "/volumeDevices/staging/"
)

// addStaged adds a mount of a staged volume. The kubelet's directory may be mounted at a second path, and a driver's container
// may have it anywhere.
func (r *mountReader) addStaged(m *mountinfo.Info, v view) {
	_, at, ok := strings.Cut(m.Mountpoint, "/"+csiDir+"/")
	if !ok || v.apart {
		return
	}
	if _, ok := r.staged[at]; !ok {
		r.staged[at] = r.words(m, v)
	}
}

// stagedVolumes are the staged volumes of each pod.
type stagedVolumes struct {
	source string
	pods   map[parsers.PodUID]judge.Fact
}

func (s *stagedVolumes) fact(uid parsers.PodUID) judge.Fact {
	if s == nil {
		return judge.Fact{}
	}
	if f, ok := s.pods[uid]; ok {
		f.Source = s.source
		return f
	}
	return judge.Fact{Truth: judge.No, Source: s.source}
}

// podVolumes are the volumes of one pod directory, as paths below csiDir at which they may be staged.
type podVolumes struct {
	at  []string
	err error // why there may be others
}

// readStaged compares the staged volumes with those of all pod directories. A node without a staged volume needs no reads.
func (s *Scanner) readStaged(ctx context.Context, m *mountTables, names []string, wanted parsers.PodSet) (*stagedVolumes, error) {
	found := &stagedVolumes{source: s.cfg.RootDir + "/" + csiDir, pods: map[parsers.PodUID]judge.Fact{}}
	if m == nil || len(m.staged) == 0 {
		return found, nil
	}
	pods, err := s.podsDir()
	if err != nil {
		return found, err
	}
	defer pods.Close()
	volumes, users := map[parsers.PodUID]podVolumes{}, map[string]int{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return found, fmt.Errorf("cannot read the pods' volumes in time: %w", err)
		}
		v := readVolumes(pods, name)
		for _, at := range v.at {
			users[at]++
		}
		if wanted[parsers.PodUID(name)] {
			volumes[parsers.PodUID(name)] = v
		}
	}
	mounted := stagedPaths(m.staged)
	for uid, v := range volumes {
		found.pods[uid] = stagedOf(v, users, mounted)
	}
	return found, nil
}

// stagedPaths returns the staged volumes by the path that podVolumes has. What else is mounted below csiDir is left out, such as
// the devices that are published for a pod.
func stagedPaths(mounts map[string]string) map[string]string {
	paths := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(mounts)) {
		parts := strings.Split(at, "/")
		if len(parts) >= 3 && (parts[2] == "globalmount" || parts[0]+"/"+parts[1] == "volumeDevices/staging") {
			key := strings.Join(parts[:3], "/")
			if _, ok := paths[key]; !ok {
				paths[key] = mounts[at]
			}
		}
	}
	return paths
}

// stagedOf returns Yes if a volume of the pod is staged and no other pod directory has it.
func stagedOf(v podVolumes, users map[string]int, mounted map[string]string) judge.Fact {
	for _, at := range v.at {
		if words, ok := mounted[at]; ok && users[at] == 1 {
			return judge.Fact{Truth: judge.Yes, Detail: "its volume is staged, and no other pod directory has it: " + words}
		}
	}
	if v.err == nil {
		return judge.Fact{Truth: judge.No}
	}
	// One of its volumes is not known. It may be any that is staged and that no pod directory has.
	for _, at := range slices.Sorted(maps.Keys(mounted)) {
		if users[at] == 0 {
			return judge.Fact{Detail: fmt.Sprintf("%v, and a staged volume is of no known pod: %s", v.err, mounted[at])}
		}
	}
	return judge.Fact{Truth: judge.No}
}

// readVolumes reads where the CSI volumes of one pod directory may be staged. Each path is there once.
func readVolumes(pods *fdpath.Dir, name string) (v podVolumes) {
	pod, err := pods.Step(name)
	if err != nil { // no directory, a mount point: readDirectories has it
		return v
	}
	defer pod.Close()
	v.err = eachVolume(pod, "volumes", func(plugin *fdpath.Dir, volume string) error {
		v.at = append(v.at, "pv/"+volume+"/globalmount")
		return v.add(plugin, volume)
	})
	err = eachVolume(pod, "volumeDevices", func(_ *fdpath.Dir, volume string) error {
		v.at = append(v.at, "volumeDevices/staging/"+volume)
		return nil
	})
	if v.err == nil {
		v.err = err
	}
	slices.Sort(v.at)
	v.at = slices.Compact(v.at)
	return v
}

// eachVolume calls do for each CSI volume in a directory of the pod, and returns the first error.
func eachVolume(pod *fdpath.Dir, in string, do func(plugin *fdpath.Dir, volume string) error) error {
	dir, err := pod.Step(in)
	if err != nil {
		return ignoreGone(err)
	}
	defer dir.Close()
	plugin, err := dir.Step(csiPlugin)
	if err != nil {
		return ignoreGone(err)
	}
	defer plugin.Close()
	var first error
	err = eachName(plugin, in+"/"+csiPlugin, func(volume string) error {
		if err := do(plugin, volume); err != nil && first == nil {
			first = err
		}
		return nil
	})
	if err == nil {
		err = first
	}
	return err
}

// add adds the paths that follow from vol_data.json.
func (v *podVolumes) add(plugin *fdpath.Dir, volume string) error {
	dir, err := plugin.Step(volume)
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("volume %s is a mount point", bounded.Name(volume))
	}
	if err != nil {
		return ignoreGone(err)
	}
	defer dir.Close()
	var data struct {
		SpecVolID    string `json:"specVolID"`
		VolumeHandle string `json:"volumeHandle"`
		DriverName   string `json:"driverName"`
	}
	text, err := dir.ReadFile(content.VolData, 64<<10) // the kubelet writes some 200 bytes
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	if err == nil && (data.DriverName == "" || data.VolumeHandle == "") {
		err = errors.New("it does not name its volume")
	}
	if err != nil {
		return fmt.Errorf("cannot read vol_data.json of volume %s: %w", bounded.Name(volume), err)
	}
	sum := sha256.Sum256([]byte(data.VolumeHandle))
	v.at = append(v.at, data.DriverName+"/"+hex.EncodeToString(sum[:])+"/globalmount")
	if data.SpecVolID != "" {
		v.at = append(v.at, "pv/"+data.SpecVolID+"/globalmount")
	}
	return nil
}
