package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Reader looks for the kubelet of this node.
type Reader struct {
	ProcDir         string
	RootDir         string
	RootDirSet      bool // the operator chose it; else it was found when the program started
	Waive           bool // there is no kubelet
	RuntimeEndpoint string
	Guard           *bounded.Guard
}

// Answer has what was found about the kubelet.
type Answer struct {
	Runs    policy.Fact // whether one with our root directory runs
	Running *Kubelet    // that one, nil if unknown
	Agrees  policy.Fact // whether the settings agree with the running kubelets
	Moved   error       // policy.ErrRootMoved, if only a restart of this process makes them agree
}

// DefaultRootDir is the kubelet's own default of --root-dir.
const DefaultRootDir = "/var/lib/kubelet"

// Kubelet is one running kubelet, alone or inside a larger program.
type Kubelet struct {
	ID        policy.KubeletID
	parent    int
	name      string   // kubelet, hyperkube, k3s, kubelite
	args      []string // its command line after the name
	flags     flags    // of the kubelet itself
	config    settings
	configErr error // why its configuration is unknown; config has its flags nevertheless
	files     kubeletFiles
	rootDir   string
	rootErr   error // why rootDir is unknown
	script    bool  // an interpreter that runs a script of that name
	LogFormat policy.LogFormat
	hidden    bool // it has replaced its command line by a title, as k3s does
}

// kubelets are the running kubelets, ours with the wanted root directory.
type kubelets struct {
	ours, others []*Kubelet
}

// Find finds the running kubelet. It returns in bounded time whatever hangs.
func (r *Reader) Find(ctx context.Context) (a Answer) {
	type found struct {
		ks     kubelets
		agrees policy.Fact
		moved  bool
		err    error
	}
	f, hung := bounded.Do(ctx, r.Guard, "kubelet", func() found {
		ks, err := scanner{procDir: r.ProcDir}.find(r.RootDir)
		agrees, moved := r.agrees(ks, err)
		return found{ks, agrees, moved, err}
	})
	if hung != nil {
		f.err = hung
		f.agrees, _ = r.agrees(kubelets{}, hung)
	}
	a.Agrees = f.agrees
	running, err := f.ks.one(r.RootDir)
	if f.err != nil {
		err = f.err
	}
	a.Running, a.Runs = running, policy.Fact{Origin: r.ProcDir}
	switch {
	case err != nil:
		a.Runs.Detail = fmt.Sprintf("cannot find out which kubelet runs: %v", err)
	case running == nil:
		a.Runs.Truth, a.Runs.Detail = policy.No, "no kubelet runs with the root directory "+r.RootDir
		if len(f.ks.others) > 0 {
			a.Runs.Detail += ", but " + list(f.ks.others)
		}
	default:
		a.Runs.Truth, a.Runs.Detail = policy.Yes, running.String()
	}
	if f.moved {
		a.Moved = fmt.Errorf("%w: %s", policy.ErrRootMoved, f.agrees.Detail)
	}
	return a
}

func (k *Kubelet) String() string {
	return fmt.Sprintf("%s, PID %d, root directory %s", k.name, k.ID.PID, clean.Name(k.rootDir))
}

func list(ks []*Kubelet) string {
	var words []string
	for _, k := range ks {
		words = append(words, k.String())
	}
	return strings.Join(words, "; ")
}

// find returns the running kubelets, and an error if one cannot be identified.
func (s scanner) find(rootDir string) (kubelets, error) {
	var ks kubelets
	all, err := s.kubelets()
	if err != nil {
		return ks, err
	}
	for _, k := range all {
		same, err := k.hasRoot(rootDir)
		switch {
		case errors.Is(err, procfs.ErrEnded):
		case err != nil:
			return ks, err
		case same:
			ks.ours = append(ks.ours, k)
		default:
			ks.others = append(ks.others, k)
		}
	}
	return ks, nil
}

// one returns the kubelet with the root directory, nil if there is none, and an error if
// there are several.
func (ks kubelets) one(rootDir string) (*Kubelet, error) {
	switch len(ks.ours) {
	case 0:
		return nil, nil
	case 1:
		return ks.ours[0], nil
	}
	var pids []string
	for _, k := range ks.ours {
		pids = append(pids, fmt.Sprint(k.ID.PID))
	}
	return nil, fmt.Errorf("several kubelets run with the root directory %s: PIDs %s", rootDir, strings.Join(pids, " and "))
}

func oneKubelet(procDir, rootDir string) (*Kubelet, error) {
	ks, err := scanner{procDir: procDir}.find(rootDir)
	if err != nil {
		return nil, err
	}
	return ks.one(rootDir)
}

// hasRoot reports whether its root directory is dir. If the paths differ, or the kubelet has another mount namespace, it
// compares the directories: symlinks and bind mounts lead to the same one, and two mount namespaces may have different ones
// with the same path.
func (k *Kubelet) hasRoot(dir string) (bool, error) {
	if k.rootErr != nil {
		return false, fmt.Errorf("root directory of %s (PID %d): %w", k.name, k.ID.PID, k.rootErr)
	}
	if !k.files.apart && k.files.err == nil && filepath.Clean(k.rootDir) == filepath.Clean(dir) {
		return true, nil
	}
	return k.sameFile(k.rootDir, dir)
}

// sameFile reports whether the kubelet's path leads to the same file as ours. It returns false if either
// file does not exist.
func (k *Kubelet) sameFile(theirs, ours string) (bool, error) {
	a, err := k.files.stat(theirs)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	b, err := kubeletFiles{}.stat(ours)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

// RootDir returns the default of --root-dir, and its source for messages: the root directory of the running kubelet, or the
// kubelet's own default if none runs. Kubelets with different root directories are an error, since an operator must choose.
func RootDir(ctx context.Context, procDir string) (dir, from string, err error) {
	type found struct {
		k   *Kubelet
		err error
	}
	f, err := bounded.Do(ctx, new(bounded.Guard), "kubelet", func() found {
		k, err := anyKubelet(procDir)
		return found{k, err}
	})
	switch {
	case err != nil:
		return "", "", fmt.Errorf("cannot look for the kubelet: %w; set --root-dir", err)
	case f.err != nil:
		return "", "", fmt.Errorf("%w; set --root-dir", f.err)
	case f.k == nil:
		return DefaultRootDir, "the kubelet's default; no kubelet runs", nil
	}
	return f.k.rootDir, fmt.Sprintf("the running %s, PID %d", f.k.name, f.k.ID.PID), nil
}

// anyKubelet returns the first kubelet, nil if none runs, and an error unless all of them have the same
// root directory, at the same path as for this process.
func anyKubelet(procDir string) (*Kubelet, error) {
	ks, err := scanner{procDir: procDir}.kubelets()
	if err != nil {
		return nil, fmt.Errorf("cannot look for the kubelet: %w", err)
	}
	if len(ks) == 0 {
		return nil, nil
	}
	first := ks[0]
	for _, k := range ks {
		if k.rootErr != nil {
			return nil, fmt.Errorf("cannot find the root directory of %s (PID %d): %w", k.name, k.ID.PID, k.rootErr)
		}
		switch same, err := k.hasRoot(first.rootDir); {
		case err != nil:
			return nil, fmt.Errorf("cannot find the root directory of %s (PID %d): %w", k.name, k.ID.PID, err)
		case !same && k == first:
			return nil, fmt.Errorf("%s: that is in a mount namespace of its own, and another directory than ours of that name", k)
		case !same:
			return nil, fmt.Errorf("several kubelets run: %s; %s", first, k)
		}
	}
	return first, nil
}
