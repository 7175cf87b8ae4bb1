package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RunningRootDir returns the root directory of the kubelet that runs, and DefaultRootDir if none runs or it does not set one.
// It is an error if kubelets have different ones: the operator has to name one.
func RunningRootDir(ctx context.Context) (string, error) {
	s, err := New(Config{})
	if err != nil {
		return "", err
	}
	found := sense(ctx, s, "kubelets", func(ctx context.Context) ([]string, error) {
		procs, err := s.readProcesses(ctx)
		if err != nil {
			return nil, err
		}
		return s.rootDirs(procs)
	})
	switch {
	case found.doubt.err != nil:
		return "", found.doubt.err
	case len(found.found) == 0:
		return DefaultRootDir, nil
	case len(found.found) > 1:
		return "", errors.New("several kubelets run, with different root directories: " + strings.Join(found.found, ", "))
	}
	return found.found[0], nil
}

// rootDirs returns the root directories of the kubelets among the processes, each once, by their command lines.
func (s *Scanner) rootDirs(procs *processes) ([]string, error) {
	all, err := s.candidates(procs, &kubelets{})
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, c := range all {
		dir := c.flag("root-dir")
		if dir == "" {
			dir = DefaultRootDir
		}
		if !filepath.IsAbs(dir) {
			cwd, err := os.Readlink(s.procPath(c.pid, "cwd"))
			if err != nil {
				continue // it has ended
			}
			dir = filepath.Join(cwd, dir)
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}
