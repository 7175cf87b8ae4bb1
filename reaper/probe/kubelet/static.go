package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxManifest bounds a manifest as the kubelet does (pkg/kubelet/config/common.go).
const maxManifest = 10 << 20

// StaticPods has the pods of the manifests.
type StaticPods struct {
	policy.StaticPods
	files  kubeletFiles
	broken []string // the text of files that are no manifests
}

// brokenError is the error of a file that was read and is no manifest.
type brokenError struct{ error }

// unread reports whether an error is of a file or directory that could not be read.
func unread(err error) bool {
	_, broken := errors.AsType[brokenError](err)
	return err != nil && !broken
}

// StaticPods reads the manifests of the kubelet's static pods.
func (r *Reader) StaticPods(ctx context.Context, k *Kubelet) *StaticPods {
	if k == nil {
		return &StaticPods{StaticPods: policy.StaticPods{Origin: r.ProcDir, Unsure: "no kubelet is known, so its static pods cannot be read"}}
	}
	s, err := bounded.Do(ctx, r.Guard, "static pods", func() *StaticPods { return readStaticPods(k) })
	if err != nil {
		return &StaticPods{StaticPods: policy.StaticPods{Err: fmt.Errorf("cannot read the static pods' manifests: %w", err)}}
	}
	return s
}

func readStaticPods(k *Kubelet) *StaticPods {
	s := &StaticPods{files: k.files, StaticPods: policy.StaticPods{Origin: k.String()}}
	paths, err := k.manifestPaths()
	if err != nil {
		s.Err = fmt.Errorf("cannot find the manifests of static pods of the kubelet (PID %d): %w", k.ID.PID, err)
		return s
	}
	if len(paths) > 0 {
		s.Origin = strings.Join(paths, ", ")
	}
	if k.config.StaticPodURL != "" {
		s.Unsure = "the kubelet has static pods from a URL too"
	}
	if s.Node = k.config.Hostname; s.Node == "" {
		s.Node, _ = os.Hostname() // without it no static pod counts as running, and more is kept
	}
	s.Node = strings.ToLower(strings.TrimSpace(s.Node))
	for _, path := range paths {
		err := s.read(path)
		if errors.Is(err, fs.ErrNotExist) && k.name != nameK3s {
			// To the kubelet a missing path is an empty directory. k3s makes its own, so a missing one is the wrong path.
			err = nil
		}
		if err != nil && (s.Err == nil || unread(err)) {
			s.Err = fmt.Errorf("cannot read the static pods' manifests: %w", err)
		}
	}
	if !unread(s.Err) {
		s.Broken = s.broken
	}
	return s
}

// read reads manifests as the kubelet does: path is a file or a directory, symlinks are followed, directories and names that
// begin with a dot are skipped, and any other file is a manifest.
func (s *StaticPods) read(path string) error {
	info, err := s.files.stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.add(path)
	}
	entries, err := s.files.list(path, mostFiles)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if strings.HasPrefix(d.Name, ".") {
			continue
		}
		e := s.add(filepath.Join(path, d.Name))
		if unread(e) {
			e = errors.New(e.Error()) // not ErrNotExist: a file that has vanished is being replaced
		}
		if err == nil || unread(e) && !unread(err) {
			err = e
		}
	}
	return err
}

func (s *StaticPods) add(file string) error {
	info, err := s.files.stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil // the kubelet skips it
	}
	text, err := s.files.readUpTo(file, maxManifest)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		s.broken = append(s.broken, string(text))
		return brokenError{fmt.Errorf("%s: %w", clean.Name(file), err)}
	}
	if m != nil {
		m.File = clean.Name(file)
		s.Manifests = append(s.Manifests, *m)
	}
	return nil
}

// parseManifest returns nil for an object of another kind, which the kubelet refuses. A file without a kind is an error: it
// may be a manifest that is being written.
func parseManifest(text []byte) (*policy.Manifest, error) {
	var pod struct {
		Kind     string `yaml:"kind"`
		Metadata struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
			UID       string `yaml:"uid"`
		} `yaml:"metadata"`
	}
	read := yaml.Unmarshal
	if json.Valid(text) {
		read = json.Unmarshal // JSON may be indented with tabs, YAML may not
	}
	if err := read(text, &pod); err != nil {
		return nil, err
	}
	switch m := pod.Metadata; {
	case pod.Kind == "":
		return nil, errors.New("it has no kind")
	case pod.Kind != "Pod":
		return nil, nil // not a pod
	case m.Name == "":
		return nil, errors.New("the pod has no name")
	case m.Namespace == "":
		return &policy.Manifest{Namespace: "default", Name: m.Name, UID: m.UID}, nil
	default:
		return &policy.Manifest{Namespace: m.Namespace, Name: m.Name, UID: m.UID}, nil
	}
}
