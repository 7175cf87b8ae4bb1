package poddir

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// stateFiles are the kubelet's files below its root directory that name its pods. allocated_pods_state
// and actuated_pods_state exist since 1.33, pod_status_manager_state from 1.27 to 1.32.
var stateFiles = [...]string{
	"allocated_pods_state", "actuated_pods_state", "pod_status_manager_state",
	"cpu_manager_state", "memory_manager_state", "dra_manager_state",
	"device-plugins/" + deviceCheckpoint,
}

const deviceCheckpoint = "kubelet_internal_checkpoint"

const biggestStateFile = 64 << 20 // usually some 100 KiB

// StateFiles has the wanted pods that the state files name.
type StateFiles struct {
	Err error // a file could not be read

	pods   map[parsers.PodUID][]policy.StateFile // the files that name it
	read   int
	origin string // what was read
}

// Fact reports whether the kubelet still names the pod.
func (s *StateFiles) Fact(uid parsers.PodUID, root string) policy.Fact {
	if files := s.pods[uid]; len(files) > 0 {
		origin := files[0].Name
		if !filepath.IsAbs(origin) {
			origin = root + "/" + origin
		}
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = f.Name
		}
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: "the kubelet's " + strings.Join(names, " and ") + " names it"}
	}
	if s.Err != nil {
		return policy.Fact{Origin: root, Detail: s.Err.Error()}
	}
	return policy.Fact{Truth: policy.No, Origin: s.origin}
}

// Files returns the files that name the pod, nil if one could not be read, since that may name it, too.
func (s *StateFiles) Files(uid parsers.PodUID) []policy.StateFile {
	if s.Err != nil {
		return nil
	}
	return s.pods[uid]
}

// StateFiles finds the pods of w in the state files.
func (r *Reader) StateFiles(ctx context.Context, d *Dirs, w parsers.PodSet) *StateFiles {
	s, err := bounded.On(ctx, r.Guard, "state files", d.Root, func(fd int) *StateFiles { return r.readStateFiles(r.Open.At(fd), w) })
	if err != nil {
		return &StateFiles{Err: fmt.Errorf("cannot read the kubelet's state files: %w", err)}
	}
	return s
}

func (r *Reader) readStateFiles(root *beneath.Dir, w parsers.PodSet) *StateFiles {
	s := &StateFiles{pods: map[parsers.PodUID][]policy.StateFile{}}
	defer func() { s.origin = r.RootDir + ", " + policy.Count(s.read, "state file") }()
	for _, file := range stateFiles {
		text, written, err := readBelow(root, file, biggestStateFile)
		s.add(policy.StateFile{Name: file, Written: written}, text, err, w)
	}
	if r.DevicePlugins == filepath.Join(r.RootDir, "device-plugins") {
		return s // stateFiles has it
	}
	fd, err := unix.Open(r.DevicePlugins, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.add(policy.StateFile{Name: r.DevicePlugins}, nil, err, w)
		return s
	}
	defer beneath.Close(fd)
	text, written, err := r.Open.At(fd).ReadDated(deviceCheckpoint, biggestStateFile)
	s.add(policy.StateFile{Name: filepath.Join(r.DevicePlugins, deviceCheckpoint), Written: written}, text, err, w)
	return s
}

// add adds one file, or why it could not be read. A missing file names no pod.
func (s *StateFiles) add(file policy.StateFile, text []byte, err error, w parsers.PodSet) {
	switch {
	case err == nil:
		s.read++
		w.InText(text, func(uid parsers.PodUID) {
			if !slices.Contains(s.pods[uid], file) {
				s.pods[uid] = append(s.pods[uid], file)
			}
		})
	case !beneath.Gone(err) && s.Err == nil:
		s.Err = fmt.Errorf("cannot read the kubelet's %s: %w", file.Name, err)
	}
}

// readBelow reads a regular file at a path of several names below root.
func readBelow(root *beneath.Dir, path string, limit int64) ([]byte, time.Time, error) {
	dir, name := filepath.Split(path)
	parent := root
	if dir != "" {
		var err error
		if parent, err = root.Walk(strings.Split(strings.TrimSuffix(dir, "/"), "/")...); err != nil {
			return nil, time.Time{}, err
		}
		defer parent.Close()
	}
	return parent.ReadDated(name, limit)
}
