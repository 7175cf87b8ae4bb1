package probe

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

// stateFiles are the kubelet's own files below its root directory that name the pods it
// knows: releases differ in which there are. allocated_pods_state and
// actuated_pods_state since 1.33, pod_status_manager_state from 1.27 to 1.32.
var stateFiles = [...]string{
	"allocated_pods_state", "actuated_pods_state", "pod_status_manager_state",
	"cpu_manager_state", "memory_manager_state", "dra_manager_state",
	"device-plugins/" + deviceCheckpoint,
}

const deviceCheckpoint = "kubelet_internal_checkpoint"

// biggestStateFile bounds what is read; a real one has some 100 KiB.
const biggestStateFile = 64 << 20

// inStateFiles is what the state files say about the wanted pods.
type inStateFiles struct {
	pods map[parsers.PodUID][]policy.StateFile // the files that name it
	read int
	err  error
}

func (s *inStateFiles) fact(uid parsers.PodUID, root string) policy.Fact {
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
	if s.err != nil {
		return policy.Fact{Origin: root, Detail: s.err.Error()}
	}
	return policy.Fact{Truth: policy.No, Origin: fmt.Sprintf("%s, %d state files", root, s.read)}
}

// files returns the files that name the pod, where all could be read: one that could not may
// name it, too.
func (s *inStateFiles) files(uid parsers.PodUID) []policy.StateFile {
	if s.err != nil {
		return nil
	}
	return s.pods[uid]
}

func (p *Probe) stateFiles(ctx context.Context, root *bounded.Handle, w parsers.PodSet) *inStateFiles {
	s, err := bounded.On(ctx, p.guard, "state files", root, func(fd int) *inStateFiles { return p.readStateFiles(fd, w) })
	if err != nil {
		return &inStateFiles{err: fmt.Errorf("cannot read the kubelet's state files: %w", err)}
	}
	return s
}

func (p *Probe) readStateFiles(root int, w parsers.PodSet) *inStateFiles {
	s := &inStateFiles{pods: map[parsers.PodUID][]policy.StateFile{}}
	for _, file := range stateFiles {
		text, written, err := p.readBelow(root, file, biggestStateFile)
		s.add(policy.StateFile{Name: file, Written: written}, text, err, w)
	}
	if p.cfg.DevicePlugins == filepath.Join(p.cfg.RootDir, "device-plugins") {
		return s // it is among them
	}
	fd, err := unix.Open(p.cfg.DevicePlugins, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.add(policy.StateFile{Name: p.cfg.DevicePlugins}, nil, err, w)
		return s
	}
	defer beneath.Close(fd)
	text, written, err := p.open.ReadDated(fd, deviceCheckpoint, biggestStateFile)
	s.add(policy.StateFile{Name: filepath.Join(p.cfg.DevicePlugins, deviceCheckpoint), Written: written}, text, err, w)
	return s
}

// add takes in one file, or why it could not be read. A file that is not there names nobody.
func (s *inStateFiles) add(file policy.StateFile, text []byte, err error, w parsers.PodSet) {
	switch {
	case err == nil:
		s.read++
		w.InText(text, func(uid parsers.PodUID) {
			if !slices.Contains(s.pods[uid], file) {
				s.pods[uid] = append(s.pods[uid], file)
			}
		})
	case !beneath.Gone(err) && s.err == nil:
		s.err = fmt.Errorf("cannot read the kubelet's %s: %w", file.Name, err)
	}
}

// readBelow reads a regular file some names below root.
func (p *Probe) readBelow(root int, path string, limit int64) ([]byte, time.Time, error) {
	dir, name := filepath.Split(path)
	parent := root
	if dir != "" {
		fd, err := p.open.Walk(root, strings.Split(strings.TrimSuffix(dir, "/"), "/")...)
		if err != nil {
			return nil, time.Time{}, err
		}
		defer beneath.Close(fd)
		parent = fd
	}
	return p.open.ReadDated(parent, name, limit)
}
